package buildkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/imgcheck/imgcheck/pkg/patch"
)

// addition returns the change without the parts that a Dockerfile cannot express.
func addition() patch.Change {
	c := change()
	c.Files = slices.DeleteFunc(c.Files, func(f patch.File) bool { return f.Remove })
	return c
}

// listing returns the content of a directory, a line for each path: its mode, and a
// link's target or a file's content.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s", info.Mode(), name)
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(p)
			if err != nil {
				return err
			}
			b.WriteString(" -> " + link)
		case info.Mode().IsRegular():
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %d bytes", len(text))
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// contextOf returns the context of a patched text image, and its base by digest.
func contextOf(t *testing.T, image string, c patch.Change, copies []Copy, notes ...string) (*Context, string) {
	t.Helper()
	_, ref, base, p := patched(t, image, c)
	built, err := NewContext(p, ref, true, copies, notes)
	if err != nil {
		t.Fatal(err)
	}
	return built, strings.TrimSuffix(ref, ":1") + "@" + base.Images[0].Digest
}

// Files that are not root's are copied after root's, the deepest first, with the
// directories above them: /opt is 7:8 in the image, the new file 3:0.
func TestContext(t *testing.T) {
	c, from := contextOf(t, baseImage, addition(), nil, "add new.so.1", "two\nlines \x1b[2J")
	dir := filepath.Join(t.TempDir(), "fix")
	if err := c.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	want := `# The image below with what imgcheck patch lays over it:
#   add new.so.1
#   two lines ` + "\ufffd" + `[2J
# Its context is the directory of this file.
FROM ` + from + `
COPY --link rootfs/ /
COPY --link --chown=3:0 rootfs2/ /
COPY --link rootfs3/ /
COPY --link --chown=7:8 --chmod=0751 rootfs4/ /
ENV LD_LIBRARY_PATH=/opt/lib
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	files := `-rw-r--r-- Dockerfile 439 bytes
drwxr-xr-x rootfs
drwxr-xr-x rootfs/opt
drwxr-xr-x rootfs/opt/lib
Lrwxrwxrwx rootfs/opt/lib/new.so -> new.so.1
drwxr-xr-x rootfs/usr
drwxr-xr-x rootfs/usr/lib
Lrwxrwxrwx rootfs/usr/lib/libz.so -> libz.so.1
drwxr-xr-x rootfs2
drwxr-xr-x rootfs2/opt
drwxr-xr-x rootfs2/opt/lib
-rw-r--r-- rootfs2/opt/lib/new.so.1 4 bytes
drwxr-xr-x rootfs3
drwxr-xr-x rootfs3/opt
drwxr-xr-x rootfs3/opt/lib
drwxr-xr-x rootfs4
drwxr-xr-x rootfs4/opt
`
	files = strings.Replace(files, "439", fmt.Sprint(len(text)), 1)
	if diff := cmp.Diff(files, listing(t, dir)); diff != "" {
		t.Error(diff)
	}
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if info, err := d.Info(); err == nil && strings.Contains(p, "rootfs/") && info.ModTime().Unix() != 0 {
			t.Errorf("%s has the time %s, and the image is of 1970", p, info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A Dockerfile that needs no files is complete by itself.
func TestContextAlone(t *testing.T) {
	c, from := contextOf(t, baseImage, patch.Change{Env: []patch.EnvEdit{{Name: "A", Value: ""}, {Name: "B", Value: `a "$b\`}}}, nil)
	text, err := c.Dockerfile()
	want := "# The image below with what imgcheck patch lays over it:\nFROM " + from + "\nENV A=\nENV B=\"a \\\"\\$b\\\\\"\n"
	if err != nil || !c.Alone() || text != want {
		t.Errorf("%v, alone %v:\n%s", err, c.Alone(), text)
	}
}

// A mode that git or a user's files cannot have is set in the Dockerfile.
func TestContextModes(t *testing.T) {
	c := addition()
	c.Files[0].Mode, c.Files[0].UID = 0, 0
	built, _ := contextOf(t, strings.Replace(baseImage, "mode=751 uid=7 gid=8", "mode=2775", 1), c, nil)
	text, err := built.Dockerfile()
	if err != nil {
		t.Fatal(err)
	}
	want := `COPY --link rootfs/ /
COPY --link --chmod=0000 rootfs2/ /
COPY --link rootfs3/ /
COPY --link --chmod=2775 rootfs4/ /
`
	if !strings.Contains(text, want) {
		t.Errorf("no\n%s\nin\n%s", want, text)
	}
}

// Files of another image in a registry are copied from there, and are not in the
// context.
func TestContextCopies(t *testing.T) {
	const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	from := func(path string) []Copy {
		return []Copy{{Path: "opt/lib/new.so.1", Image: "docker://host:5/cudnn:9", Digest: digest, From: path}}
	}
	c, _ := contextOf(t, baseImage, addition(), from("/usr/lib/new.so.1"))
	text, err := c.Dockerfile()
	if err != nil {
		t.Fatal(err)
	}
	want := "COPY --link --from=host:5/cudnn@" + digest + " --chown=3:0 --chmod=0644 \\\n    /usr/lib/new.so.1 \\\n    /opt/lib/\nCOPY --link rootfs/ /\n"
	if !strings.Contains(text, want) {
		t.Errorf("no\n%s\nin\n%s", want, text)
	}
	dir := filepath.Join(t.TempDir(), "fix")
	if err := c.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if got := listing(t, dir); strings.Contains(got, "new.so.1 ") {
		t.Errorf("it is in the context:\n%s", got)
	}
	hub, _ := contextOf(t, baseImage, addition(), []Copy{{Path: "opt/lib/new.so.1", Image: "nvidia/cuda:12", Digest: digest, From: "/usr/lib/new.so.1"}})
	if text, err := hub.Dockerfile(); err != nil || !strings.Contains(text, "--from=docker.io/nvidia/cuda@"+digest+" ") {
		t.Errorf("%v\n%s", err, text)
	}
	for name, copies := range map[string][]Copy{
		"a name that COPY would expand": from("/usr/$lib/new.so.1"),
		"a pattern":                     from("/usr/l*/new.so.1"),
		"another name":                  from("/usr/lib/old.so.1"),
		"no registry":                   {{Path: "opt/lib/new.so.1", Image: "oci:dir", Digest: digest, From: "/usr/lib/new.so.1"}},
		"no digest":                     {{Path: "opt/lib/new.so.1", Image: "host:5/cudnn:9", From: "/usr/lib/new.so.1"}},
	} {
		c, _ := contextOf(t, baseImage, addition(), copies)
		if text, err := c.Dockerfile(); err != nil || strings.Contains(text, "--from") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func TestWhatADockerfileCannot(t *testing.T) {
	for name, tt := range map[string]struct {
		image   string
		onBuild []string
		change  patch.Change
		err     string
	}{
		"remove":   {baseImage, nil, change(), "cannot remove a file of its base without running a shell, and the fix removes /opt/old"},
		"on build": {baseImage, []string{"RUN rm -rf /"}, addition(), "the image has ONBUILD instructions"},
	} {
		t.Run(name, func(t *testing.T) {
			_, ref, base, p := patched(t, tt.image, tt.change)
			base.Images[0].Config.Config.OnBuild = tt.onBuild
			_, err := NewContext(p, ref, true, nil, nil)
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %s", err, tt.err)
			}
		})
	}
	// Directories that alternate between two owners cost a COPY each.
	deep, dir := baseImage, "1/deep"
	for i := range maxLayers {
		deep += fmt.Sprintf("-- %s --\ndir uid=%d\n", dir, 1+i%2)
		dir += "/d"
	}
	_, ref, _, p := patched(t, deep, patch.Change{Files: []patch.File{{Path: dir[2:], Link: "x"}}})
	if _, err := NewContext(p, ref, true, nil, nil); err == nil || !strings.Contains(err.Error(), "would have 128 layers") {
		t.Errorf("got %v", err)
	}
	_, _, _, p = patched(t, baseImage, addition())
	if _, err := NewContext(p, "oci:dir", true, nil, nil); err == nil || !strings.Contains(err.Error(), "in registries only") {
		t.Errorf("got %v", err)
	}
	for _, e := range []patch.EnvEdit{{Name: "A", Unset: true}, {Name: "A", Value: "/opt\nRUN curl evil"}, {Name: "A", Value: "\xff"}, {Name: "A B", Value: "c"}, {Name: "A", Value: "\u0085"}} {
		c := &Context{from: "image", env: []patch.EnvEdit{e}}
		if text, err := c.Dockerfile(); err == nil || text != "" || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v\n%s", e, err, text)
		}
	}
}

// A context is written to a new or an empty directory only; an incomplete context is
// removed.
func TestContextPlace(t *testing.T) {
	c, _ := contextOf(t, baseImage, addition(), nil)
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	for _, err := range []error{
		os.Mkdir(at("empty"), 0o700), os.Symlink("empty", at("link")), os.Symlink("nowhere", at("dangling")),
		os.Mkdir(at("full"), 0o755), os.WriteFile(at("full/mine"), nil, 0o644), os.WriteFile(at("file"), nil, 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"full": "full is not empty: name a new directory", "file": "file: not a directory", "no/such": "no/such: no such file or directory",
		"dangling": "dangling is a dangling link", "file/x": "file/x: not a directory",
	} {
		if err := c.Write(t.Context(), at(name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	if err := c.Write(t.Context(), at("link")); err != nil {
		t.Error(err)
	}
	if err := c.Write(t.Context(), at("new")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(listing(t, at("new")), listing(t, at("empty"))); diff != "" {
		t.Errorf("an empty directory gets another context (-new +empty):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Write(ctx, at("stopped")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	left, err := os.ReadDir(top)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"dangling", "empty", "file", "full", "link", "new"}, names); diff != "" {
		t.Error(diff)
	}
}

// FuzzDockerfile: for all variables of an image and all lines of a plan, BuildKit's
// parser reads one FROM and one ENV, and its shell returns the value.
func FuzzDockerfile(f *testing.F) {
	for _, v := range []string{"", "/a:/b", "$ORIGIN/lib", "${A:-b}", `\`, `"`, `'it''s'`, `\"$\\`, "a b\u2003c", "<<EOF", "#x", "a=b", "\u2028", "`x`", "ü", "\\\n", "x\r"} {
		f.Add(v, "escape=`")
		f.Add("/opt/lib", v)
	}
	f.Fuzz(func(t *testing.T, value, note string) {
		c := &Context{from: "host:5/app@sha256:00", notes: []string{note}, env: []patch.EnvEdit{{Name: "A", Value: value}}}
		text, err := c.Dockerfile()
		if err != nil {
			if text != "" {
				t.Errorf("an error and %q", text)
			}
			return
		}
		parsed, err := parser.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		var names []string
		for _, n := range parsed.AST.Children {
			names = append(names, n.Value)
		}
		if !slices.Equal(names, []string{"FROM", "ENV"}) {
			t.Fatalf("it has %v:\n%s", names, text)
		}
		env := parsed.AST.Children[1]
		if env.Next.Value != "A" || env.Next.Next.Next == nil || env.Next.Next.Next.Next != nil {
			t.Fatalf("it sets something else:\n%s", text)
		}
		got, _, err := shell.NewLex(parsed.EscapeToken).ProcessWord(env.Next.Next.Value, shell.EnvsFromSlice([]string{"b=c", "ORIGIN=x"}))
		if err != nil || got != value {
			t.Errorf("%q became %q, %v:\n%s", value, got, err, text)
		}
	})
}
