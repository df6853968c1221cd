package githook

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed pre-push.sh
var script string

// marker is the line by which a hook of ours is known, and Chained the name of
// the hook that was there before: ours runs it first.
const (
	marker  = "# Installed by `imgcheck hook install`"
	Chained = "pre-push.before-imgcheck"
)

// Installed says what an installation did.
type Installed struct {
	Path    string
	Chained bool // a hook was there, and is run first
	Again   bool // it was ours already
	Shared  bool // core.hooksPath is a directory that serves other repositories as well
}

// Install writes the hook of the repository of the current directory, where git
// looks for it. program is run when there is no imgcheck in the PATH.
func Install(ctx context.Context, program string) (*Installed, error) {
	in, err := hookPath(ctx)
	if err != nil {
		return nil, err
	}
	chained := filepath.Join(filepath.Dir(in.Path), Chained)
	old, err := os.ReadFile(in.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case bytes.Contains(old, []byte(marker)):
		in.Again = true
	default:
		if _, err := os.Lstat(chained); err == nil {
			return nil, fmt.Errorf("%s is not imgcheck's, and %s, which an earlier installation has set aside, is there as well: remove one of them", in.Path, chained)
		}
		if err := os.Rename(in.Path, chained); err != nil {
			return nil, err
		}
	}
	if _, err := os.Lstat(chained); err == nil {
		in.Chained = true
	}
	if err := os.MkdirAll(filepath.Dir(in.Path), 0o755); err != nil {
		return nil, err
	}
	quoted := "'" + strings.ReplaceAll(program, "'", `'\''`) + "'"
	if err := writeProgram(in.Path, strings.ReplaceAll(script, "@PROGRAM@", quoted)); err != nil {
		return nil, err
	}
	return in, nil
}

// Uninstall removes the hook, and puts back the one that was there before.
func Uninstall(ctx context.Context) (*Installed, error) {
	in, err := hookPath(ctx)
	if err != nil {
		return nil, err
	}
	old, err := os.ReadFile(in.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s", in.Path)
	}
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(old, []byte(marker)) {
		return nil, fmt.Errorf("%s is not imgcheck's: it stays", in.Path)
	}
	chained := filepath.Join(filepath.Dir(in.Path), Chained)
	err = os.Rename(chained, in.Path)
	if err == nil {
		in.Chained = true
		return in, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return in, os.Remove(in.Path)
}

// hookPath is where git looks for the hook: in the repository, in that of a
// worktree's repository, or in core.hooksPath.
func hookPath(ctx context.Context) (*Installed, error) {
	out, err := git(ctx, "rev-parse", "--git-path", "hooks/pre-push")
	if err != nil {
		return nil, err
	}
	in := &Installed{Path: filepath.FromSlash(strings.TrimRight(string(out), "\r\n"))}
	shared, _ := git(ctx, "config", "--get", "core.hooksPath") // fails when it is not set
	in.Shared = len(bytes.TrimSpace(shared)) > 0 && filepath.IsAbs(in.Path)
	return in, nil
}

// writeProgram writes an executable file whole or not at all.
func writeProgram(name, text string) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".pre-push-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(0o755), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
