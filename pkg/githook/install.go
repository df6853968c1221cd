package githook

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// programKey is the key in a clone's git configuration for the program to run if
	// PATH has no imgcheck: a tracked file must not name a path of one machine.
	programKey = "imgcheck.program"
	// asideSuffix is added to the hook's directory for the directory of a hook that is
	// no shell script. There it keeps its name, and the files that it finds by its path.
	asideSuffix = ".before-imgcheck"
	// oldMarker and oldChained belong to old installations, which renamed the existing
	// hook: a hook that depends on its own name (husky's) then did nothing.
	oldMarker  = "# Installed by `imgcheck hook install`"
	oldChained = "pre-push.before-imgcheck"
)

// Installed describes an installation.
type Installed struct {
	Path    string   // the file with imgcheck's lines
	Manager string   // the owner of the file: husky, lefthook or pre-commit; empty for git's own hook
	Before  bool     // an earlier hook runs first
	Again   bool     // imgcheck was installed already
	Shared  bool     // core.hooksPath is a directory that other repositories use as well
	Next    []string // what is left to the user
}

// repository has the paths of hooks.
type repository struct {
	hook   string // the file that git runs
	own    string // the file that git would run without core.hooksPath
	top    string // the working tree, or empty
	shared bool
}

func findRepository(ctx context.Context) (*repository, error) {
	r := &repository{}
	for _, ask := range []struct {
		to   *string
		args []string
	}{
		{&r.hook, []string{"rev-parse", "--git-path", "hooks/pre-push"}},
		{&r.own, []string{"rev-parse", "--git-common-dir"}},
	} {
		out, err := git(ctx, ask.args...)
		if err != nil {
			return nil, err
		}
		*ask.to = filepath.FromSlash(strings.TrimRight(string(out), "\r\n"))
	}
	r.own = filepath.Join(r.own, "hooks", "pre-push")
	if out, err := git(ctx, "rev-parse", "--show-cdup"); err == nil { // fails in a bare repository
		r.top = filepath.Join(".", filepath.FromSlash(strings.TrimRight(string(out), "\r\n")))
	}
	set, _ := git(ctx, "config", "--get", "core.hooksPath") // fails when it is not set
	r.shared = len(strings.TrimSpace(string(set))) > 0 && filepath.IsAbs(r.hook)
	return r, nil
}

// Install makes git run imgcheck before a push in the repository of the current
// directory: by the hook manager that is active there, else by git's own hook. An
// existing hook runs first. program is run if PATH has no imgcheck.
func Install(ctx context.Context, program string) (*Installed, error) {
	r, err := findRepository(ctx)
	if err != nil {
		return nil, err
	}
	again, err := r.migrate()
	if err != nil {
		return nil, err
	}
	manager := r.manager()
	if manager != "" || r.tracked(ctx) {
		if _, err := git(ctx, "config", "--local", programKey, program); err != nil {
			return nil, err
		}
		program = ""
	}
	in, err := r.install(manager, program)
	if err != nil {
		return nil, err
	}
	in.Again = in.Again || again
	return in, nil
}

// manager returns the hook manager of this clone, or "".
func (r *repository) manager() string {
	text, _ := readText(r.hook) // an unreadable file is no manager's, and is an error later
	switch {
	case r.huskyFile() != "":
		return "husky"
	case r.usesLefthook():
		return "lefthook"
	case isPreCommit(text):
		return "pre-commit"
	}
	return ""
}

func (r *repository) install(manager, program string) (in *Installed, err error) {
	if manager == "" {
		return r.installHook(program)
	}
	if err := r.dropHooks(); err != nil {
		return nil, err
	}
	switch manager {
	case "husky":
		in, err = installShell(r.huskyFile(), runsHusky, program)
	case "lefthook":
		in, err = r.installLefthook()
	case "pre-commit":
		in, err = r.installPreCommit()
	}
	if in != nil {
		in.Manager = manager
	}
	return in, err
}

// dropHooks removes the block from hooks that a manager has disabled, or keeps beside
// its own.
func (r *repository) dropHooks() error {
	for _, file := range []string{r.hook, r.own, r.hook + ".legacy", r.hook + ".old"} {
		if _, err := uninstallBlock(file); err != nil {
			return err
		}
	}
	return nil
}

// tracked reports whether the directory of hooks is in a working tree, this one or
// another: its files are then used on other machines as well.
func (r *repository) tracked(ctx context.Context) bool {
	dir := filepath.Dir(r.hook)
	for !exists(dir) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
	}
	out, err := git(ctx, "-C", dir, "rev-parse", "--is-inside-work-tree")
	return err == nil && strings.TrimSpace(string(out)) == "true"
}

// migrate restores what an old installation has renamed, and removes a hook that was set
// aside and is in its place again. It reports whether it found either.
func (r *repository) migrate() (bool, error) {
	chained := filepath.Join(filepath.Dir(r.hook), oldChained)
	text, err := readText(r.hook)
	if err != nil {
		return false, nil // reported by the installation
	}
	before, beforeErr := readText(chained)
	switch ours := strings.Contains(text, oldMarker); {
	case ours && exists(chained):
		return true, os.Rename(chained, r.hook)
	case ours:
		return true, os.Remove(r.hook)
	case beforeErr == nil && before == text: // a hook manager has written its hook again
		return true, os.Remove(chained)
	}
	aside := filepath.Join(r.aside(), "pre-push")
	if before, err := readText(aside); err == nil && before == text {
		return true, errors.Join(os.Remove(aside), r.clearAside())
	}
	return false, nil
}

// installShell inserts the block into a shell script of others, and creates the script
// if it does not exist.
func installShell(file, before, program string) (*Installed, error) {
	in := &Installed{Path: file}
	text, err := readText(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, err
		}
		return in, writeText(file, shellBlock("", program), 0o644)
	}
	if err != nil {
		return nil, err
	}
	if !isShell(text) {
		return nil, fmt.Errorf("%s is not a shell script: make it run `imgcheck hook run \"$@\"` with its standard input", file)
	}
	text, in.Again = withoutBlock(text)
	if in.Before = strings.TrimSpace(text) != ""; !in.Before {
		before = ""
	}
	return in, rewrite(file, withBlock(text, shellBlock(before, program)))
}

// installHook inserts the block into git's own hook. A hook that is not a shell script
// is set aside, and so is one that is not executable, which git does not run.
func (r *repository) installHook(program string) (*Installed, error) {
	in := &Installed{Path: r.hook, Shared: r.shared, Next: r.inactive()}
	if _, err := os.Lstat(r.hook); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(r.hook), 0o755); err != nil {
			return nil, err
		}
		return in, writeText(r.hook, alone+shellBlock("", program), 0o755)
	}
	st, err := os.Lstat(r.hook)
	if err != nil {
		return nil, err
	}
	text, err := readText(r.hook)
	if err != nil && !errors.Is(err, errLarge) && st.Mode().Type() != fs.ModeSymlink {
		return nil, err
	}
	rest, ours := withoutBlock(text)
	in.Again = ours
	aside := filepath.Join(r.aside(), "pre-push")
	switch {
	case ours && rest == alone && exists(aside):
		in.Before = true
		return in, rewrite(r.hook, alone+shellBlock(runsAside, program))
	case ours && rest == alone:
		return in, rewrite(r.hook, alone+shellBlock("", program))
	case exists(aside):
		return nil, r.asideError()
	case err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 && isShell(rest):
		in.Before = true
		return in, rewrite(r.hook, withBlock(rest, shellBlock(runsBelow, program)))
	}
	in.Before = st.Mode().Type() == fs.ModeSymlink || st.Mode()&0o111 != 0
	if err := r.setAside(); err != nil {
		return nil, err
	}
	return in, writeText(r.hook, alone+shellBlock(runsAside, program), 0o755)
}

// aside returns the directory for a hook that is set aside. It is beside the directory
// of the hooks, so that relative paths and links still work.
func (r *repository) aside() string { return filepath.Dir(r.hook) + asideSuffix }

func (r *repository) asideError() error {
	return fmt.Errorf("%s is not imgcheck's, and %s, set aside by an earlier installation, exists as well: remove one of them", r.hook, filepath.Join(r.aside(), "pre-push"))
}

// setAside moves the hook into its own directory, with links to the files beside it.
func (r *repository) setAside() error {
	if err := os.MkdirAll(r.aside(), 0o755); err != nil {
		return err
	}
	list, err := os.ReadDir(filepath.Dir(r.hook))
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.Name() == "pre-push" || strings.HasSuffix(e.Name(), ".sample") {
			continue
		}
		to := filepath.Join("..", filepath.Base(filepath.Dir(r.hook)), e.Name())
		if err := os.Symlink(to, filepath.Join(r.aside(), e.Name())); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return os.Rename(r.hook, filepath.Join(r.aside(), "pre-push"))
}

// takeBack undoes setAside.
func (r *repository) takeBack() error {
	if err := os.Rename(filepath.Join(r.aside(), "pre-push"), r.hook); err != nil {
		return err
	}
	return r.clearAside()
}

// clearAside removes the links of setAside, and the directory when nothing else is in it.
func (r *repository) clearAside() error {
	list, err := os.ReadDir(r.aside())
	for _, e := range list {
		if e.Type() == fs.ModeSymlink {
			err = errors.Join(err, os.Remove(filepath.Join(r.aside(), e.Name())))
		}
	}
	_ = os.Remove(r.aside()) // fails if it has other files
	return err
}

// inactive returns the hook managers that the repository has files of and that are not
// active in this clone. Once active, they do not run git's own hook.
func (r *repository) inactive() (next []string) {
	if r.top == "" {
		return nil
	}
	if exists(filepath.Join(r.top, ".husky")) && !exists(filepath.Join(filepath.Dir(r.hook), "_", "husky.sh")) {
		next = append(next, "husky is not in use in this clone: once it is (`npm run prepare`), run `imgcheck hook install` again")
	}
	for _, name := range lefthookFiles() {
		if exists(filepath.Join(r.top, name)) {
			return append(next, "lefthook is not in use in this clone: once it is (`lefthook install`), run `imgcheck hook install` again")
		}
	}
	return next
}

// installLefthook adds an entry to lefthook's file.
func (r *repository) installLefthook() (*Installed, error) {
	for _, name := range lefthookFiles() {
		file := filepath.Join(r.top, name)
		if !exists(file) {
			continue
		}
		in, err := r.installEntry(file, "lefthook", "commands of pre-push", lefthookEntry, withLefthook)
		if text, _ := readText(r.hook); err == nil && !strings.Contains(text, "call_lefthook") {
			in.Next = append(in.Next, "lefthook has no pre-push hook here yet: run `lefthook install`")
		}
		return in, err
	}
	return nil, &EntryError{"lefthook", "commands of pre-push", "its configuration", errors.New("it is not one of lefthook's usual files"), lefthookEntry}
}

// installPreCommit adds an entry to pre-commit's file.
func (r *repository) installPreCommit() (*Installed, error) {
	stage := preCommitStage()
	return r.installEntry(filepath.Join(r.top, preCommitFile), "pre-commit", "repos", preCommitEntry(stage), func(text string) (string, error) {
		if strings.Contains(text, "id: imgcheck\n") {
			return text, nil // the file uses the hook of imgcheck's repository
		}
		return withPreCommit(text, stage)
	})
}

const preCommitFile = ".pre-commit-config.yaml"

// installEntry adds an entry to a hook manager's file, or returns an EntryError.
func (r *repository) installEntry(file, manager, where, entry string, with func(string) (string, error)) (*Installed, error) {
	text, err := readText(file)
	if err != nil {
		return nil, err
	}
	in := &Installed{Path: file, Before: true}
	rest, again := withoutBlock(text)
	in.Again = again
	text, err = rest, errForm
	if ext := filepath.Ext(file); ext == ".yml" || ext == ".yaml" {
		text, err = with(rest)
	}
	if err != nil {
		return nil, &EntryError{manager, where, file, err, entry}
	}
	return in, rewrite(file, text)
}

// EntryError says what to add to a hook manager's file that imgcheck cannot edit.
type EntryError struct {
	manager, where, file string
	why                  error
	Entry                string // lines of its file
}

func (e *EntryError) Error() string {
	return fmt.Sprintf("%s runs the hooks here; add these lines to the %s in %s (%v)", e.manager, e.where, e.file, e.why)
}

// Uninstall removes imgcheck's lines from every file that git or a hook manager runs,
// and from the hook that core.hooksPath has disabled.
func Uninstall(ctx context.Context) ([]*Installed, error) {
	r, err := findRepository(ctx)
	if err != nil {
		return nil, err
	}
	var done []*Installed
	for _, hook := range []string{r.hook, r.own} {
		one := &repository{hook: hook, own: hook}
		in, err := one.uninstallHook()
		if err != nil {
			return done, err
		}
		if in != nil {
			done = append(done, in)
		}
	}
	for _, file := range r.others() {
		in, err := uninstallBlock(file)
		if err != nil {
			return done, err
		}
		if in != nil {
			done = append(done, in)
		}
	}
	_, _ = git(ctx, "config", "--local", "--unset-all", programKey) // fails when it is not set
	if len(done) > 0 {
		return done, nil
	}
	if exists(r.hook) {
		return nil, fmt.Errorf("%s is not imgcheck's: it stays", r.hook)
	}
	return nil, fmt.Errorf("there is no %s", r.hook)
}

// others returns the files of hook managers that may have a block: their own, and those
// where they keep earlier hooks.
func (r *repository) others() []string {
	files := []string{filepath.Join(filepath.Dir(filepath.Dir(r.hook)), "pre-push")}
	if r.top != "" {
		files = append(files, filepath.Join(r.top, ".husky", "pre-push"), filepath.Join(r.top, preCommitFile))
		for _, name := range lefthookFiles() {
			files = append(files, filepath.Join(r.top, name))
		}
	}
	for _, hook := range []string{r.hook, r.own} {
		files = append(files, hook+".legacy", hook+".old") // pre-commit's, lefthook's
	}
	return files
}

// uninstallHook removes the block from git's own hook; it returns nil if there is none.
func (r *repository) uninstallHook() (*Installed, error) {
	if migrated, err := r.migrate(); migrated || err != nil {
		return &Installed{Path: r.hook, Before: exists(r.hook)}, err
	}
	aside := filepath.Join(r.aside(), "pre-push")
	text, err := readText(r.hook)
	rest, ours := withoutBlock(text)
	switch {
	case err == nil && ours && rest == alone && exists(aside):
		return &Installed{Path: r.hook, Before: true}, r.takeBack()
	case (err != nil || !ours) && exists(aside) && exists(r.hook):
		return nil, r.asideError()
	}
	return uninstallBlock(r.hook)
}

// uninstallBlock removes the block from a file, and the file if nothing else is in it.
// It returns nil if there is no block.
func uninstallBlock(file string) (*Installed, error) {
	text, err := readText(file)
	if err != nil {
		return nil, nil // missing, or not written by imgcheck
	}
	if strings.Contains(text, oldMarker) {
		return &Installed{Path: file}, os.Remove(file)
	}
	rest, ours := withoutBlock(text)
	if !ours {
		return nil, nil
	}
	if rest == alone || rest == "" {
		return &Installed{Path: file}, os.Remove(file)
	}
	return &Installed{Path: file, Before: true}, rewrite(file, rest)
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

var errLarge = fmt.Errorf("is larger than %d KiB", maxConfig>>10)

// readText reads a file of at most maxConfig bytes.
func readText(name string) (string, error) {
	st, err := os.Stat(name)
	switch {
	case err != nil:
		return "", err
	case !st.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file", name)
	case st.Size() > maxConfig:
		return "", fmt.Errorf("%s %w", name, errLarge)
	}
	text, err := os.ReadFile(name)
	return string(text), err
}

// rewrite replaces the text of a file, or of the file that a link leads to, and keeps
// its mode.
func rewrite(name, text string) error {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	st, err := os.Stat(real)
	if err != nil {
		return err
	}
	return writeText(real, text, st.Mode().Perm())
}

// writeText writes a file whole or not at all.
func writeText(name, text string, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".pre-push-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
