// Package githook says which images a git push concerns, and puts the hook into
// a repository that asks.
//
// It reads the lines that git gives a pre-push hook, looks at the files that the
// commits touch which the remote does not have, and finds the images that those
// name. It asks git for everything, by its plumbing, and so sees what git sees: a
// worktree, a hooks path, a partial clone. It does not know how an image is
// scanned, and touches neither index nor working tree.
package githook

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Bounds: refs of a push, files of it that are looked at, bytes of a file, and of all
// of them.
const (
	maxRefs  = 10_000
	maxFiles = 2000
	maxFile  = 1 << 20
)

const maxAll = int64(64 << 20)

// Update is one line that git gives a pre-push hook: githooks(5).
type Update struct {
	LocalRef, Local   string // empty ref and zero ID: the remote's is deleted
	RemoteRef, Remote string // a zero ID: the ref is new there
}

// Deletes reports whether the ref is deleted at the remote.
func (u Update) Deletes() bool { return zero(u.Local) }

// zero reports whether an object ID is none, be it SHA-1 or SHA-256.
func zero(id string) bool { return strings.Trim(id, "0") == "" }

// ReadUpdates reads git's lines: local ref, local ID, remote ref, remote ID.
func ReadUpdates(r io.Reader) ([]Update, error) {
	var list []Update
	s := bufio.NewScanner(r)
	for s.Scan() {
		if s.Text() == "" {
			continue
		}
		f := strings.Fields(s.Text())
		if len(f) != 4 || !objectID(f[1]) || !objectID(f[3]) {
			return nil, fmt.Errorf("%.200q is no line of a pre-push hook: git gives it LOCAL-REF LOCAL-ID REMOTE-REF REMOTE-ID", s.Text())
		}
		if len(list) == maxRefs {
			return nil, fmt.Errorf("a push of more than %d refs", maxRefs)
		}
		list = append(list, Update{f[0], f[1], f[2], f[3]})
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("reading the lines of git: %w", err)
	}
	return list, nil
}

func objectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// Change is a file that the push brings, new or otherwise than before.
type Change struct {
	Path   string
	Commit string // the pushed one
	New    []byte // nil when Why says why it could not be read
	Old    []byte // before the push; nil when the file is new
	Why    string
}

// Changes are the files of the pushed commits that the remote does not have and
// for which wanted is true, as they stand in the last of them. What a remote has
// is what it said, and what was fetched from it.
func Changes(ctx context.Context, remote string, updates []Update, wanted func(path string) bool) ([]Change, error) {
	var changes []Change
	seen, left := map[string]bool{}, maxAll
	for _, u := range updates {
		if u.Deletes() || seen[u.Local] {
			continue
		}
		seen[u.Local] = true
		have, err := has(ctx, remote, u)
		if err != nil {
			return nil, err
		}
		paths, err := touched(ctx, u, have)
		if err != nil {
			return nil, err
		}
		paths = slices.DeleteFunc(paths, func(p string) bool { return !wanted(p) })
		if len(paths) == 0 {
			continue
		}
		if len(paths) > maxFiles {
			return nil, fmt.Errorf("the push changes %d files that may name images; at most %d are looked at", len(paths), maxFiles)
		}
		more, err := read(ctx, u, have, paths, &left)
		if err != nil {
			return nil, err
		}
		changes = append(changes, more...)
	}
	return changes, nil
}

// has are revisions that the remote has, as arguments after --not.
func has(ctx context.Context, remote string, u Update) ([]string, error) {
	var list []string
	if !zero(u.Remote) {
		list = append(list, u.Remote)
	}
	refs, err := git(ctx, "for-each-ref", "--count=1", "--format=%(refname)", "refs/remotes/"+remote+"/")
	if err != nil {
		return nil, err
	}
	if len(refs) > 0 && !strings.ContainsAny(remote, "*?[") {
		return append(list, "--remotes="+remote), nil
	}
	return append(list, "--remotes"), nil // a push to a URL
}

// touched are the files that the new commits have changed and not deleted. It asks
// plumbing only: `git log` hides files by log.showRoot and dies of diff.orderFile,
// as the user's configuration has them.
func touched(ctx context.Context, u Update, have []string) ([]string, error) {
	args := []string{"rev-list", "--ignore-missing", u.Local + "^{commit}", "--not"}
	commits, err := git(ctx, append(append(args, have...), "--")...)
	if err != nil || len(commits) == 0 {
		return nil, err
	}
	out, err := gitInput(ctx, commits, "diff-tree", "--stdin", "--root", "-r", "-c", "-z", "--no-commit-id", "--name-only", "--diff-filter=d", "--no-renames", "--no-relative", "--no-ext-diff", "--no-textconv")
	if err != nil {
		return nil, err
	}
	paths := strings.Split(string(out), "\x00")
	slices.Sort(paths)
	paths = slices.Compact(paths)
	return slices.DeleteFunc(paths, func(p string) bool { return p == "" }), nil
}

// read gives the files of the pushed commit and what they were before, left bytes of
// them at most.
func read(ctx context.Context, u Update, have, paths []string, left *int64) ([]Change, error) {
	base, err := before(ctx, u, have)
	if err != nil {
		return nil, err
	}
	now, err := blobs(ctx, u.Local, paths, left)
	if err != nil {
		return nil, err
	}
	var old map[string]blob
	if base != "" {
		if old, err = blobs(ctx, base, paths, left); err != nil {
			return nil, err
		}
	}
	var changes []Change
	for _, p := range paths {
		if b, ok := now[p]; ok && !bytes.Equal(b.text, old[p].text) || b.why != "" {
			changes = append(changes, Change{p, u.Local, b.text, old[p].text, b.why})
		}
	}
	return changes, nil
}

// before is a commit with what the remote has: the ref's own, where it is here,
// else one on which the new commits stand. Empty when there is none.
func before(ctx context.Context, u Update, have []string) (string, error) {
	if !zero(u.Remote) {
		if _, err := git(ctx, "cat-file", "-e", u.Remote+"^{commit}"); err == nil {
			return u.Remote, nil
		}
	}
	out, err := git(ctx, append(append([]string{"rev-list", "--boundary", "--ignore-missing", u.Local + "^{commit}", "--not"}, have...), "--")...)
	for line := range strings.Lines(string(out)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "-"); ok {
			return id, nil
		}
	}
	return "", err
}

type blob struct {
	text []byte
	why  string // why it was not read
}

// blobs reads files of a commit. What is not there is not in the answer.
func blobs(ctx context.Context, commit string, paths []string, left *int64) (map[string]blob, error) {
	found := map[string]blob{}
	var in strings.Builder
	var asked []string
	for _, p := range paths {
		if strings.Contains(p, "\n") {
			found[p] = blob{why: "its name has a line break"}
			continue
		}
		asked = append(asked, p)
		fmt.Fprintf(&in, "%s:%s\n", commit, p)
	}
	cmd := command(ctx, "cat-file", "--batch")
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("running git: %w", err)
	}
	r := bufio.NewReader(out)
	for _, p := range asked {
		b, ok, err := readBlob(r, left)
		if err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return nil, fmt.Errorf("reading %s of commit %.12s: %w", p, commit, err)
		}
		if ok {
			found[p] = b
		}
	}
	if err := cmd.Wait(); err != nil {
		return nil, gitError("cat-file", err, stderr.String())
	}
	return found, nil
}

// readBlob reads one answer of `git cat-file --batch`; false when the object is
// not there or is no file.
func readBlob(r *bufio.Reader, left *int64) (blob, bool, error) {
	head, err := r.ReadString('\n')
	if err != nil {
		return blob{}, false, io.ErrUnexpectedEOF
	}
	f := strings.Fields(head)
	if strings.HasSuffix(head, " missing\n") || len(f) == 2 && f[1] == "submodule" { // from git 2.52 on
		return blob{}, false, nil
	}
	if len(f) != 3 {
		return blob{}, false, fmt.Errorf("git says %.200q", head)
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || size < 0 {
		return blob{}, false, fmt.Errorf("git says %.200q", head)
	}
	why := ""
	switch {
	case size > maxFile:
		why = fmt.Sprintf("it is larger than %d KiB", maxFile>>10)
	case size > *left:
		why = fmt.Sprintf("the files of the push have more than %d KiB", maxAll>>10)
	}
	if f[1] != "blob" || why != "" {
		if _, err := io.CopyN(io.Discard, r, size+1); err != nil {
			return blob{}, false, err
		}
		return blob{why: why}, f[1] == "blob", nil
	}
	*left -= size
	text := make([]byte, size+1)
	if _, err := io.ReadFull(r, text); err != nil {
		return blob{}, false, err
	}
	return blob{text: text[:size]}, true, nil
}

// git runs a command of git in the current directory.
func git(ctx context.Context, args ...string) ([]byte, error) {
	return gitInput(ctx, nil, args...)
}

// gitInput runs a command of git that reads its input.
func gitInput(ctx context.Context, in []byte, args ...string) ([]byte, error) {
	cmd := command(ctx, args...)
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, gitError(args[0], err, stderr.String())
	}
	return out, nil
}

// command is one of git, which sees the objects that a push sends, not those that
// stand in for them here (git-replace(1)).
func command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(cmd.Environ(), "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	return cmd
}

func gitError(what string, err error, stderr string) error {
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("git is not installed")
	}
	if s := strings.Join(strings.Fields(stderr), " "); s != "" {
		return fmt.Errorf("git %s: %s", what, s)
	}
	return fmt.Errorf("git %s: %w", what, err)
}
