package outfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// says returns a function that writes a text.
func says(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func mustWrite(t *testing.T, name, text string) {
	t.Helper()
	if err := Check(name); err != nil {
		t.Error(err)
	}
	if err := Write(name, 0o640, says(text)); err != nil {
		t.Error(err)
	}
}

func wantText(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil || string(got) != want {
		t.Errorf("%s has %q, want %q (%v)", name, got, want, err)
	}
}

// names lists a directory.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestWriteReplaces(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "report")
	mustWrite(t, file, "one")
	old, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	mustWrite(t, file, "two")
	wantText(t, file, "two")
	if b, _ := io.ReadAll(old); string(b) != "one" {
		t.Errorf("who reads the file meanwhile gets %q, want the old one", b)
	}
	if st, _ := os.Stat(file); st.Mode() != 0o640 {
		t.Errorf("mode %v", st.Mode())
	}
	broken := errors.New("broken")
	err = Write(file, 0o644, func(w io.Writer) error {
		io.WriteString(w, "half")
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the writer's error", err)
	}
	wantText(t, file, "two")
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
}

// TestWriteFollowsLinks writes through links: they stay, and the temporary file is
// created beside the last one's target.
func TestWriteFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "away", "real")
	for _, d := range []string{"away", "links", "links/deep"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{
		"links/deep/absolute": real,
		"links/relative":      "../away/real",
		"links/twice":         "deep/absolute",
		"way":                 "links/deep",
		"links/up":            "../way/../../away/real", // .. of links/deep, not of way
		"round":               "round",
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range links {
		if name == "round" || name == "way" {
			continue
		}
		os.Remove(real)
		for _, text := range []string{name, name + " again"} { // the link dangles at first
			mustWrite(t, filepath.Join(dir, name), text)
			wantText(t, real, text)
		}
		if got, err := os.Readlink(filepath.Join(dir, name)); got != to {
			t.Errorf("%s is not the link that it was: %q, %v", name, got, err)
		}
	}
	if got := names(t, filepath.Join(dir, "away")); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
	for _, name := range []string{"round", "nowhere/report", "away"} {
		if err := Write(filepath.Join(dir, name), 0o644, says("x")); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	t.Chdir(dir)
	mustWrite(t, "links/relative", "here")
	mustWrite(t, "report", "there")
	wantText(t, real, "here")
	wantText(t, "report", "there")
}
