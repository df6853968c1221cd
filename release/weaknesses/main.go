//go:build ignore

// Command weaknesses lists the known weaknesses of Go modules that a program has, and fails if a
// release would have them. It asks no server but the Go module proxy: Go's database of weaknesses is
// a module of its own there, of which database pins a version. `make vuln` asks the database as it
// is today.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/version"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The version of Go's database (github.com/golang/vulndb), and its digest, as in a go.sum.
const (
	database = "golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018"
	digest   = "h1:mfngRv0Yoh0VApsXKEN82CjD99kl7mtparN3bs3JnqI="
)

func main() {
	log.SetFlags(0)
	program := flag.String("program", "bin/imgcheck", "the program")
	govulncheck := flag.String("govulncheck", "govulncheck", "the program that knows what is reached")
	flag.Parse()
	if err := check(*program, *govulncheck); err != nil {
		log.Fatal(err)
	}
}

func check(program, govulncheck string) error {
	toolchain, err := output("go", "list", "-m", "-f", "{{.GoVersion}}")
	if err != nil {
		return err
	}
	if b, err := output("go", "mod", "edit", "-json"); err != nil {
		return err
	} else if t := struct{ Toolchain string }{}; json.Unmarshal(b, &t) == nil && t.Toolchain != "" {
		toolchain = []byte(t.Toolchain)
	}
	release := "go" + strings.TrimPrefix(strings.TrimSpace(string(toolchain)), "go")
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	n, err := writeDatabase(dir)
	if err != nil {
		return err
	}
	b, err := output(govulncheck, "-db", "file://"+filepath.ToSlash(dir), "-mode", "binary", "-format", "json", program)
	if err != nil {
		return err
	}
	found, err := findings(b)
	if err != nil {
		return err
	}
	wrong := 0
	for _, f := range found {
		at := f.Trace[0]
		if at.Module == "stdlib" && version.Compare("go"+strings.TrimPrefix(f.Fixed, "v"), release) <= 0 && f.Fixed != "" {
			fmt.Printf("%s: in the %s that this program is built with; a release is built with %s\n", f.OSV, at.Version, release)
			continue
		}
		wrong++
		fmt.Printf("%s: %s@%s, fixed in %s: https://pkg.go.dev/vuln/%s\n", f.OSV, at.Module, at.Version, cmp.Or(f.Fixed, "no version"), f.OSV)
	}
	fmt.Printf("%d of %d known weaknesses are in %s\n", wrong, n, program)
	if wrong > 0 {
		return errors.New("a release would have them")
	}
	return nil
}

// output returns what a program prints.
func output(name string, args ...string) ([]byte, error) {
	c := exec.Command(name, args...)
	c.Stderr = os.Stderr
	b, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// finding is a weakness of a module whose code the program has.
type finding struct {
	OSV   string `json:"osv"`
	Fixed string `json:"fixed_version"`
	Trace []struct{ Module, Version, Package string }
}

// findings returns those of govulncheck's messages that are about packages in the program, one for
// each weakness and module.
func findings(messages []byte) ([]finding, error) {
	all := map[string]finding{}
	for d := json.NewDecoder(bytes.NewReader(messages)); ; {
		var m struct{ Finding *finding }
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if f := m.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Package != "" {
			all[f.OSV+" "+f.Trace[0].Module] = *f
		}
	}
	var list []finding
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list, nil
}

// entry is an entry of the database, as far as its index has it.
type entry struct {
	ID        string     `json:"id"`
	Modified  time.Time  `json:"modified"`
	Withdrawn *time.Time `json:"withdrawn"`
	Affected  []struct {
		Package struct {
			Name string `json:"name"`
		} `json:"package"`
		Ranges []struct {
			Events []struct {
				Fixed string `json:"fixed"`
			} `json:"events"`
		} `json:"ranges"`
	} `json:"affected"`
}

type indexed struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
	Fixed    string    `json:"fixed,omitempty"`
}

type module struct {
	Path  string    `json:"path"`
	Vulns []indexed `json:"vulns"`
}

// writeDatabase writes the database as https://go.dev/security/vuln/database#api has it, and
// returns the number of its entries.
func writeDatabase(dir string) (int, error) {
	b, err := output("go", "mod", "download", "-json", database)
	if err != nil {
		return 0, err
	}
	var got struct{ Dir, Sum string }
	if err := json.Unmarshal(b, &got); err != nil {
		return 0, err
	}
	if got.Sum != digest {
		return 0, fmt.Errorf("%s has the digest %s, not %s", database, got.Sum, digest)
	}
	files, err := filepath.Glob(filepath.Join(got.Dir, "data", "osv", "GO-*.json"))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("%s has no entries", database)
	}
	for _, d := range []string{"ID", "index"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			return 0, err
		}
	}
	modules := map[string]*module{}
	var last time.Time
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		var e entry
		if err := json.Unmarshal(b, &e); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		if e.Withdrawn != nil {
			continue
		}
		if e.Modified.After(last) {
			last = e.Modified
		}
		for _, a := range e.Affected {
			m := modules[a.Package.Name]
			if m == nil {
				m = &module{Path: a.Package.Name}
				modules[m.Path] = m
			}
			v := indexed{ID: e.ID, Modified: e.Modified}
			for _, r := range a.Ranges {
				for _, event := range r.Events {
					v.Fixed = cmp.Or(event.Fixed, v.Fixed)
				}
			}
			m.Vulns = append(m.Vulns, v)
		}
		if err := os.WriteFile(filepath.Join(dir, "ID", filepath.Base(name)), b, 0o600); err != nil {
			return 0, err
		}
	}
	var list []module
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		list = append(list, *modules[path])
	}
	for name, v := range map[string]any{"db.json": map[string]time.Time{"modified": last}, "modules.json": list} {
		b, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "index", name), b, 0o600)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(files), nil
}
