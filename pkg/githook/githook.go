// Package githook finds the images that a git push concerns, judges what their findings
// mean for the push, and installs the hook in a repository.
//
// It reads the lines that git writes to a pre-push hook, reads the files that are
// changed by commits which the remote does not have, and finds the images that those
// files name. It asks git's plumbing for everything, and so supports what git supports:
// worktrees, hook paths, partial clones. It does not know how an image is scanned, and
// changes neither index nor working tree.
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

	"github.com/joho/godotenv"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/imagerefs"
)

// Limits: refs of a push, files of a push, bytes of a file, and .env files of a push and
// bytes of one. A push beyond them is reported, and not stopped.
const (
	maxRefs  = 10_000
	maxFiles = 20_000
	maxFile  = 1 << 20
	maxEnvs  = 100
	maxEnv   = 16 << 10
)

// maxAll limits the bytes of all files of a push.
const maxAll = int64(64 << 20)

// Update is a line that git writes to a pre-push hook: githooks(5).
type Update struct {
	LocalRef, Local   string // empty and zero if the push deletes the ref
	RemoteRef, Remote string // zero if the ref is new at the remote
}

// Deletes reports whether the push deletes the ref at the remote.
func (u Update) Deletes() bool { return zero(u.Local) }

// zero reports whether an object ID, SHA-1 or SHA-256, means "no object".
func zero(id string) bool { return strings.Trim(id, "0") == "" }

// ReadUpdates reads git's lines: local ref, local ID, remote ref, remote ID. left is the
// number of lines beyond the limit, which are not parsed.
func ReadUpdates(r io.Reader) (list []Update, left int, err error) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		if s.Text() == "" {
			continue
		}
		f := strings.Fields(s.Text())
		if len(f) != 4 || !objectID(f[1]) || !objectID(f[3]) {
			return nil, 0, fmt.Errorf("%.200q is not a line for a pre-push hook: git writes LOCAL-REF LOCAL-ID REMOTE-REF REMOTE-ID", s.Text())
		}
		if len(list) == maxRefs {
			left++
			continue
		}
		list = append(list, Update{f[0], f[1], f[2], f[3]})
	}
	if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, 0, fmt.Errorf("a line of more than %d KiB is not one for a pre-push hook: git writes LOCAL-REF LOCAL-ID REMOTE-REF REMOTE-ID", bufio.MaxScanTokenSize>>10)
	} else if err != nil {
		return nil, 0, fmt.Errorf("reading the lines of git: %w", err)
	}
	return list, left, nil
}

func objectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// Change is a file that the push adds or changes.
type Change struct {
	Path   string
	Commit string // the pushed commit
	New    []byte // nil if it could not be read, for the reason Why
	Old    []byte // before the push; nil if the file is new
	Why    string
	// As is the name by which a file is read that has another one, or "".
	As string
	// Values and Was are those of the variables that the file takes from an .env file, and
	// those before the push.
	Values, Was map[string]string
	// Builds are the Dockerfiles that a Compose file builds with arguments, by their paths.
	Builds map[string][]byte
}

// Changes returns the files of the pushed commits that the remote does not have and that
// may concern an image, as the last of the commits has them. The remote has what it
// announced and what was fetched from it. left is the number of files beyond the limit.
func Changes(ctx context.Context, remote string, updates []Update) (changes []Change, left int, err error) {
	seen, room, files := map[string]bool{}, maxAll, maxFiles
	for _, u := range updates {
		if u.Deletes() || seen[u.Local] {
			continue
		}
		seen[u.Local] = true
		have, err := has(ctx, remote, u)
		if err != nil {
			return nil, 0, err
		}
		paths, err := touched(ctx, u, have)
		if err != nil {
			return nil, 0, err
		}
		paths, beyond := choose(paths, files)
		files, left = files-len(paths), left+beyond
		if len(paths) == 0 {
			continue
		}
		more, err := read(ctx, u, have, paths, &room)
		if err != nil {
			return nil, 0, err
		}
		changes = append(changes, more...)
	}
	return changes, left, nil
}

// choose returns at most most paths that may concern an image: first Dockerfiles and
// files that decide what is installed, then manifests. beyond is the number of the
// others.
func choose(paths []string, most int) (chosen []string, beyond int) {
	var manifests []string
	for _, p := range paths {
		switch {
		case dockerfile.Named(p), matchAny(inputs, p):
			chosen = append(chosen, p)
		case Wanted(p), imagerefs.IsEnv(p):
			manifests = append(manifests, p)
		}
	}
	chosen = append(chosen, manifests...)
	if len(chosen) > most {
		chosen, beyond = chosen[:most], len(chosen)-most
	}
	return chosen, beyond
}

// withoutVariables returns the lines of an .env file that use no variables: twenty lines that
// each double the value of the one before make a million bytes.
func withoutVariables(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if bytes.IndexByte(line, '$') < 0 {
			out = append(out, line...)
		}
	}
	return out
}

// has returns the revisions that the remote has, as arguments after --not.
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
	return append(list, "--remotes"), nil // for a push to a URL
}

// touched returns the files that the new commits have changed and not deleted. It uses
// plumbing only: `git log` hides files if log.showRoot is off, and fails if
// diff.orderFile is missing.
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

// read returns files of the pushed commit and their content before, at most left bytes
// of them.
func read(ctx context.Context, u Update, have, paths []string, left *int64) ([]Change, error) {
	base, err := before(ctx, u, have)
	if err != nil {
		return nil, err
	}
	files, err := differences(ctx, base, u.Local, paths)
	if err != nil {
		return nil, err
	}
	besides, err := besideEnv(ctx, u.Local, files)
	if err != nil {
		return nil, err
	}
	files = append(slices.DeleteFunc(files, func(f file) bool { return imagerefs.IsEnv(f.path) }), besides...)
	var ids, olds []string
	for _, f := range files {
		ids = append(ids, f.id)
		if !zero(f.old) {
			olds = append(olds, f.old)
		}
	}
	now, err := blobs(ctx, ids, left)
	if err != nil {
		return nil, err
	}
	then, err := blobs(ctx, olds, left)
	if err != nil {
		return nil, err
	}
	values, err := valuesAt(ctx, u.Local, files, left)
	if err != nil {
		return nil, err
	}
	was := map[string]map[string]string{}
	if base != "" {
		if was, err = valuesAt(ctx, base, files, left); err != nil {
			return nil, err
		}
	}
	var changes []Change
	for _, f := range files {
		b := now[f.id]
		env := imagerefs.EnvFile(f.path)
		changes = append(changes, Change{Path: f.path, Commit: u.Local, New: b.text, Old: then[f.old].text, Why: b.why, Values: values[env], Was: was[env]})
	}
	if changes, err = included(ctx, u.Local, base, changes, left); err != nil {
		return nil, err
	}
	return changes, builtBy(ctx, u.Local, changes, left)
}

// valuesAt returns the variables in the .env files of a commit that files take theirs from, by
// path. One that is not there, is too large or cannot be read has none.
func valuesAt(ctx context.Context, commit string, files []file, left *int64) (map[string]map[string]string, error) {
	var ids []string
	for _, f := range files {
		if env := imagerefs.EnvFile(f.path); env != "" && !strings.Contains(env, "\n") && len(ids) < maxEnvs {
			ids = append(ids, commit+":"+env)
		}
	}
	found, err := blobs(ctx, ids, left)
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for id, b := range found {
		if len(b.text) == 0 || len(b.text) > maxEnv {
			continue
		}
		if list := Variables(b.text); list != nil {
			all[strings.TrimPrefix(id, commit+":")] = list
		}
	}
	return all, nil
}

// Variables returns the variables of an .env file that have plain values, or nil if it has a mistake.
func Variables(text []byte) map[string]string {
	if len(text) > maxEnv {
		return nil
	}
	list, err := godotenv.UnmarshalBytes(withoutVariables(text))
	if err != nil {
		return nil
	}
	return list
}

// builtBy adds the Dockerfiles that the Compose files of a push build with arguments.
func builtBy(ctx context.Context, commit string, changes []Change, left *int64) error {
	var ids []string
	for i := range changes {
		for _, b := range changes[i].builds(changes[i].New, changes[i].Values) {
			if p := changes[i].dockerfile(b); p != "" && len(ids) < maxCompose {
				ids = append(ids, commit+":"+p)
			}
		}
	}
	found, err := blobs(ctx, ids, left)
	if err != nil {
		return err
	}
	texts := map[string][]byte{}
	for id, b := range found {
		texts[strings.TrimPrefix(id, commit+":")] = b.text
	}
	for i := range changes {
		changes[i].Builds = texts
	}
	return nil
}

// file is a file that differs between two commits, with its objects.
type file struct{ path, old, id string }

// differences returns the paths whose files differ between base and commit, in the order
// of paths; all of them without a base. Submodules are left out.
//
// A request for each COMMIT:PATH makes git read the directory each time: 20,000 files in
// one directory took a minute.
func differences(ctx context.Context, base, commit string, paths []string) ([]file, error) {
	if base == "" {
		empty, err := gitInput(ctx, nil, "hash-object", "-t", "tree", "--stdin")
		if err != nil {
			return nil, err
		}
		base = strings.TrimSpace(string(empty))
	}
	out, err := git(ctx, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--diff-filter=d", "--no-renames", "--no-relative", "--no-ext-diff", "--no-textconv", base+"^{tree}", commit+"^{tree}")
	if err != nil {
		return nil, err
	}
	found := map[string]file{}
	for meta, rest, ok := bytes.Cut(out, []byte{0}); ok; meta, rest, ok = bytes.Cut(rest, []byte{0}) {
		var path []byte
		path, rest, _ = bytes.Cut(rest, []byte{0})
		f := strings.Fields(string(meta)) // :OLD-MODE MODE OLD ID STATUS
		if len(f) != 5 || !objectID(f[2]) || !objectID(f[3]) {
			return nil, fmt.Errorf("git diff-tree says %.200q", meta)
		}
		if f[1] != "160000" {
			found[string(path)] = file{string(path), f[2], f[3]}
		}
	}
	var files []file
	for _, p := range paths {
		if f, ok := found[p]; ok {
			files = append(files, f)
		}
	}
	return files, nil
}

// before returns a commit that the remote has: the ref's own if it is in this
// repository, else one that the new commits are based on, or "".
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
	why  string // the reason if it was not read
}

// blobs reads objects by ID.
func blobs(ctx context.Context, ids []string, left *int64) (map[string]blob, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	cmd := command(ctx, "cat-file", "--batch")
	cmd.Stdin = strings.NewReader(strings.Join(ids, "\n") + "\n")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("running git: %w", err)
	}
	found := map[string]blob{}
	r := bufio.NewReader(out)
	for _, id := range ids {
		if found[id], err = readBlob(r, left); err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return nil, fmt.Errorf("reading object %.12s: %w", id, err)
		}
	}
	if err := cmd.Wait(); err != nil {
		return nil, gitError("cat-file", err, stderr.String())
	}
	return found, nil
}

// readBlob reads an answer of `git cat-file --batch`.
func readBlob(r *bufio.Reader, left *int64) (blob, error) {
	head, err := r.ReadString('\n')
	if err != nil {
		return blob{}, io.ErrUnexpectedEOF
	}
	if strings.HasSuffix(head, " missing\n") {
		return blob{why: "git does not have it"}, nil
	}
	f := strings.Fields(head)
	if len(f) != 3 {
		return blob{}, fmt.Errorf("git says %.200q", head)
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || size < 0 {
		return blob{}, fmt.Errorf("git says %.200q", head)
	}
	why := ""
	switch {
	case f[1] != "blob":
		why = "it is no file"
	case size > maxFile:
		why = fmt.Sprintf("it is larger than %d KiB", maxFile>>10)
	case size > *left:
		why = fmt.Sprintf("the files of the push have more than %d KiB", maxAll>>10)
	}
	if why != "" {
		if _, err := io.CopyN(io.Discard, r, size+1); err != nil {
			return blob{}, err
		}
		return blob{why: why}, nil
	}
	*left -= size
	text := make([]byte, size+1)
	if _, err := io.ReadFull(r, text); err != nil {
		return blob{}, err
	}
	return blob{text: text[:size]}, nil
}

// git runs a git command in the current directory.
func git(ctx context.Context, args ...string) ([]byte, error) {
	return gitInput(ctx, nil, args...)
}

// gitInput runs a git command with input.
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

// command returns a git command that sees the objects that a push sends, not their local
// replacements (git-replace(1)).
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
