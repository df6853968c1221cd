//go:build linux

package imports

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/rules"
)

// program is one of the root that is started with --help, as predicted and as it really ends.
type program struct {
	path      string
	predicted string // the first line of the exception with which it ends, or ""
	doubt     string
	unclear   bool   // it was still running after some time
	failed    bool   // with a traceback
	errors    string // what it has written to its standard error
}

// asPredicted reports whether the program has failed with the exception that was predicted.
func (p *program) asPredicted() bool {
	return p.failed && p.predicted != "" && strings.Contains("\n"+p.errors, "\n"+p.predicted)
}

// shebang matches the first line of the Python programs of Debian's packages.
var shebang = regexp.MustCompile(`^#! ?/usr/bin/(env )?python3\b`)

// patience limits the time in which a program writes its help. A program that takes longer is left out of the comparison.
const patience = 30 * time.Second

// comparePrograms starts the Python programs of a root's /usr/bin with --help, in the root and without a network, and prints
// how they end and how that was predicted. It returns how many do not fail as was predicted for certain.
func comparePrograms(ctx context.Context, fs *layers.FS, root string) (wrong int, err error) {
	programs, err := programsOf(root)
	if err != nil {
		return 0, err
	}
	if err := predictPrograms(ctx, fs, programs); err != nil {
		return 0, err
	}
	var g errgroup.Group
	g.SetLimit(4)
	for _, p := range programs {
		g.Go(func() error { return p.start(ctx, root) })
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	failed, found, doubted, unclear := 0, 0, 0, 0
	for _, p := range programs {
		if p.failed {
			failed++
		}
		switch {
		case p.unclear:
			unclear++
		case p.asPredicted():
			found++
		case p.predicted != "":
			fmt.Printf("  %s: predicted %s (doubt: %s), but it writes: %s\n", p.path, p.predicted, p.doubt, p.errors)
			if p.doubt == "" {
				wrong++
			} else {
				doubted++
			}
		}
	}
	fmt.Printf("%d programs with --help, %d of them still running: %d end with a traceback, %d of these as predicted; %d more are predicted to, and %d with a doubt\n",
		len(programs), unclear, failed, found, wrong, doubted)
	return wrong, nil
}

// programsOf returns the Python programs in the /usr/bin of a root.
func programsOf(root string) ([]*program, error) {
	files, err := os.ReadDir(filepath.Join(root, "usr/bin"))
	if err != nil {
		return nil, err
	}
	var list []*program
	for _, f := range files {
		if !f.Type().IsRegular() {
			continue
		}
		line, err := beginOf(filepath.Join(root, "usr/bin", f.Name()))
		if err != nil {
			return nil, err
		}
		if shebang.Match(line) {
			list = append(list, &program{path: "/usr/bin/" + f.Name()})
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no Python program in /usr/bin", root)
	}
	return list, nil
}

// beginOf returns the first line of a file, or its beginning if the line is long.
func beginOf(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	line, err := bufio.NewReaderSize(f, 256).ReadSlice('\n')
	if err == io.EOF || err == bufio.ErrBufferFull {
		err = nil
	}
	return line, err
}

func predictPrograms(ctx context.Context, fs *layers.FS, programs []*program) error {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		return err
	}
	for _, p := range programs {
		config := &v1.ConfigFile{}
		config.Config.Env = variables(nil)
		config.Config.Entrypoint = []string{p.path, "--help"}
		starts, err := replay.Follow(ctx, &replay.Image{FS: fs, Config: config}, set, "", nil)
		if err != nil {
			return err
		}
		if len(starts) == 0 {
			return fmt.Errorf("%s is not followed", p.path)
		}
		for _, s := range starts {
			if f := s.Tree.Failed; f != nil {
				p.predicted, p.doubt = firstLine(f.Type+": "+f.Text), f.Doubt
			}
		}
	}
	return nil
}

// notStarted is the lowest exit status by which `unshare`, chroot and env say that they have not started a program.
const notStarted = 125

// start really starts a program, in a network of its own.
func (p *program) start(ctx context.Context, root string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var errors bytes.Buffer
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--net", "chroot", root, "env", "-i"}, append(variables(nil), p.path, "--help")...)...)
	cmd.Stderr = &errors
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	p.errors = strings.TrimSpace(errors.String())
	p.unclear = ctx.Err() != nil
	p.failed = err != nil && strings.Contains(p.errors, "Traceback (most recent call last):")
	if status := cmd.ProcessState.ExitCode(); status >= notStarted && status <= notStarted+2 && !p.failed {
		return fmt.Errorf("%s is not started: %s", p.path, p.errors)
	}
	return nil
}
