// Package nodes loads every package of a node_modules directory with the real Node, each in a
// process of its own, and compares the outcome and the opened addons with those that
// pkg/nodejs predicts. It exits with 1 if a package is predicted to fail that loads, or if
// fewer than -opens percent of the packages open the predicted addons. It is a test of
// pkg/nodejs, run by test/real.
//
//	nodes [-opens PERCENT] DIR
package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/nodejs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// outcome has the first line of the error that the load of a package raises, or "", and the
// addons of the directory that are opened, sorted.
type outcome struct {
	Error  string
	Opened []string
}

// program loads a package and writes its outcome to the file that OUT names.
const program = `let error = '';
try { require(process.argv[2]) } catch (e) { error = String(e && e.message || e).split('\n')[0] || '?' }
const opened = process.report.getReport().sharedObjects.filter(s => s.endsWith('.node') && s.startsWith(__dirname));
require('fs').writeFileSync(process.env.OUT, JSON.stringify({Error: error, Opened: opened.map(s => s.slice(__dirname.length)).sort()}));
process.exit(0)`

// Main is the program.
func Main() {
	log.SetFlags(0)
	percent := flag.Float64("opens", 0, "least percentage of packages with the predicted addons")
	flag.Parse()
	if err := run(flag.Arg(0), *percent); err != nil {
		log.Fatal("nodes: ", err)
	}
}

func run(dir string, percent float64) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	names, err := packages(filepath.Join(dir, "node_modules"))
	if err != nil {
		return err
	}
	fsys, err := index(dir)
	if err != nil {
		return err
	}
	equal, alarms, total := 0, 0, 0
	for _, name := range names {
		real, err := load(dir, name)
		if err != nil {
			return fmt.Errorf("loading %s: %w", name, err)
		}
		if real == nil {
			continue // it ends the process, or does not end
		}
		total++
		got := predict(fsys, name)
		if got.Error != "" && real.Error == "" {
			alarms++
			log.Printf("%s loads, and is predicted to fail: %s", name, got.Error)
		}
		if slices.Equal(got.Opened, real.Opened) {
			equal++
		} else {
			log.Printf("%s opens %q, predicted are %q", name, real.Opened, got.Opened)
		}
	}
	log.Printf("%d packages, %d open the predicted addons, %d false failures", total, equal, alarms)
	if total == 0 || alarms > 0 || float64(equal) < percent/100*float64(total) {
		return errors.New("the predictions are not those of Node")
	}
	return nil
}

// packages returns the names of the packages of a directory.
func packages(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	var names []string
	for _, d := range list {
		switch {
		case strings.HasPrefix(d.Name(), "."):
		case strings.HasPrefix(d.Name(), "@"):
			inner, err := packages(filepath.Join(dir, d.Name()))
			if err != nil {
				return nil, err
			}
			for _, n := range inner {
				names = append(names, d.Name()+"/"+n)
			}
		default:
			names = append(names, d.Name())
		}
	}
	return names, err
}

// index reads the directory as an image's layer is read.
func index(dir string) (*layers.FS, error) {
	ctx := context.Background()
	img, err := layers.Open(ctx, "dir:"+dir, layers.Options{Keep: nodejs.Keep, Extract: nodejs.Extract, KeepID: nodejs.KeepID})
	if err != nil {
		return nil, err
	}
	return img.Index(ctx)
}

// load loads a package with Node. It returns nil if no outcome was written.
func load(dir, name string) (*outcome, error) {
	file, out := filepath.Join(dir, "imgcheck-load.js"), filepath.Join(dir, "imgcheck-outcome.json")
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		return nil, err
	}
	defer os.Remove(file)
	defer os.Remove(out)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", file, name)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OUT=" + out}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return nil, fmt.Errorf("starting node (Debian: nodejs): %w", err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		return nil, nil
	}
	var o outcome
	return &o, json.Unmarshal(b, &o)
}

// host opens every addon that is an ELF file.
type host struct {
	fsys   *layers.FS
	opened []string
}

func (h *host) Open(file string) *pyimport.Failure {
	e, _, ok := h.fsys.Lookup(file)
	if !ok || e.Object == nil {
		return &pyimport.Failure{Type: "Error", Text: file + ": invalid ELF header", Doubt: "it was not replayed"}
	}
	h.opened = append(h.opened, "/"+e.Path)
	return nil
}

// predict follows a program that loads a package.
func predict(fsys *layers.FS, name string) outcome {
	text := []byte("require(" + fmt.Sprintf("%q", name) + ")")
	main := layers.Entry{Path: "main.js", Type: layers.Regular, Size: int64(len(text)), Content: nodejs.Reduce(text)}
	h := &host{fsys: fsys}
	n := nodejs.Main(fsys.With(layers.NewLayer([]layers.Entry{main}), source.Layer{}), h, "/main.js", nodejs.Options{
		Env: map[string]string{"PATH": os.Getenv("PATH")}, Cwd: "/", Exec: "/usr/bin/node", Arch: "x64",
	})
	slices.Sort(h.opened)
	o := outcome{Opened: h.opened}
	if n != nil && n.Failed != nil && n.Failed.Doubt == "" {
		o.Error = n.Failed.Text
	}
	if o.Opened == nil {
		o.Opened = []string{}
	}
	return o
}
