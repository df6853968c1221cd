//go:build linux

package imports

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/rules"
)

// program is one of the root that is started with --help, as predicted and as it really ends.
type program struct {
	path            string
	predicted       string // the exception with which it ends, or ""
	doubt           string
	failed, unclear bool   // it has ended with a traceback; it was still running
	last            string // line on its standard error
}

// shebang matches the first line of the Python programs of Debian's packages.
var shebang = regexp.MustCompile(`^#! ?/usr/bin/(env )?python3\b`)

// patience limits the time in which a program writes its help. It is not held against one that takes longer.
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
	var wg sync.WaitGroup
	for some := range slices.Chunk(programs, 1+len(programs)/4) {
		wg.Go(func() {
			for _, p := range some {
				p.start(ctx, root)
			}
		})
	}
	wg.Wait()
	predicted, found, failed := 0, 0, 0
	for _, p := range programs {
		switch {
		case p.failed && p.predicted != "":
			predicted, found, failed = predicted+1, found+1, failed+1
		case p.failed:
			failed++
		case p.predicted != "" && !p.unclear:
			predicted++
			fmt.Printf("  %s: ends well, or with: %s; predicted %s (doubt: %s)\n", p.path, p.last, p.predicted, p.doubt)
			if p.doubt == "" {
				wrong++
			}
		}
	}
	fmt.Printf("%d programs with --help: %d end with a traceback, %d of these as predicted; %d are predicted to, %d of these falsely and without a doubt\n",
		len(programs), failed, found, predicted, wrong)
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
		text, err := os.ReadFile(filepath.Join(root, "usr/bin", f.Name()))
		if err != nil {
			return nil, err
		}
		if shebang.Match(text) {
			list = append(list, &program{path: "/usr/bin/" + f.Name()})
		}
	}
	return list, nil
}

func predictPrograms(ctx context.Context, fs *layers.FS, programs []*program) error {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		return err
	}
	for _, p := range programs {
		config := &v1.ConfigFile{}
		config.Config.Env = variables()
		config.Config.Entrypoint = []string{p.path, "--help"}
		starts, err := replay.Follow(ctx, &replay.Image{FS: fs, Config: config}, set, "", nil)
		if err != nil {
			return err
		}
		for _, s := range starts {
			if f := s.Tree.Failed; f != nil {
				p.predicted, p.doubt = f.Type+": "+f.Text, f.Doubt
			}
		}
	}
	return nil
}

// start really starts a program, in a network of its own.
func (p *program) start(ctx context.Context, root string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var errors bytes.Buffer
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--net", "chroot", root, "env", "-i"}, append(variables(), p.path, "--help")...)...)
	cmd.Stderr = &errors
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	p.unclear = ctx.Err() != nil
	lines := strings.Split(strings.TrimSpace(errors.String()), "\n")
	p.last = lines[len(lines)-1]
	p.failed = err != nil && bytes.Contains(errors.Bytes(), []byte("Traceback (most recent call last):"))
}

// variables returns the environment of the programs.
func variables() []string {
	var list []string
	for k, v := range environment {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}
