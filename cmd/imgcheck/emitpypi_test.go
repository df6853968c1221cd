package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/scan"
)

// TestEmittedFromIndex emits a Dockerfile alone for every text image, with libraries from a
// package index, and builds it: pip installs a wheel where the image has it, and stages unpack the
// others after BuildKit has compared their hash. The built image has fewer errors and warnings, and
// none that the image did not have.
func TestEmittedFromIndex(t *testing.T) {
	index := indexOf(t)
	built, pip, staged := 0, 0, 0
	for _, name := range allTexts(t) {
		before := scanOf(t, name, true)
		if !slices.ContainsFunc(before.Findings, func(f lint.Finding) bool { return provide.LibraryOf(f.Library) != nil && f.Severity != packs.Note }) {
			continue
		}
		img, ref := shelfText(t, name)
		text, ok := emit(t, ref, []string{"--emit", "dockerfile", "--from", "pypi:" + index})
		if !ok {
			continue
		}
		built++
		if strings.Contains(text, " -m pip install ") || strings.Contains(text, " pip install ") {
			pip++
		}
		if strings.Contains(text, "\nADD --checksum=sha256:") {
			staged++
		}
		after, err := buildText(t, img, strings.TrimSuffix(name, ".txtar"), text)
		if err != nil {
			t.Errorf("%s: %v in\n%s", name, err, text)
			continue
		}
		doc, err := scan.Image(t.Context(), after, scan.Options{NoPlan: true})
		if err != nil {
			t.Fatal(err)
		}
		left := 0
		for _, f := range doc.Findings {
			had := slices.ContainsFunc(before.Findings, func(o lint.Finding) bool { return o.Cause == f.Cause })
			if f.Severity == packs.Error && !had {
				t.Errorf("%s: with\n%s comes\n%s", name, text, briefly([]lint.Finding{f}))
			}
			if f.Severity != packs.Note {
				left++
			}
		}
		was := 0
		for _, f := range before.Findings {
			if f.Severity != packs.Note {
				was++
			}
		}
		if left >= was {
			t.Errorf("%s: the image has %d errors and warnings, and with these lines %d:\n%s%s", name, was, left, text, briefly(doc.Findings))
		}
	}
	if built < 20 || pip < 5 || staged < 10 {
		t.Errorf("only %d images, of which %d with pip and %d with stages", built, pip, staged)
	}
}

// buildText builds a whole Dockerfile on a text image: the stages before its last FROM, and the
// instructions behind it.
func buildText(t *testing.T, img *imagetest.Image, name, text string) (string, error) {
	parsed, err := parser.Parse(strings.NewReader(text))
	if err != nil {
		return "", err
	}
	stages := map[string]map[string]imagetest.File{}
	var now *stageOf
	var lines []string
	for _, n := range parsed.AST.Children {
		words := []string{}
		for w := n.Next; w != nil; w = w.Next {
			words = append(words, w.Value)
		}
		switch {
		case strings.EqualFold(n.Value, "FROM") && len(words) == 3 && words[0] == "busybox:musl":
			now = &stageOf{files: map[string]imagetest.File{}, archives: map[string][]byte{}}
			stages[words[2]] = now.files
		case strings.EqualFold(n.Value, "FROM"):
			now = nil
		case now != nil:
			if err := now.do(strings.ToUpper(n.Value), n.Flags, words); err != nil {
				return "", fmt.Errorf("%s: %w", n.Original, err)
			}
		default:
			lines = append(lines, n.Original)
		}
	}
	return buildFrom(t, shelfServer(t), img, name, lines, stages)
}

// stageOf is a stage that unpacks an archive.
type stageOf struct {
	dir      string
	files    map[string]imagetest.File // by path
	archives map[string][]byte
}

func (s *stageOf) do(instruction string, flags, words []string) error {
	switch instruction {
	case "ADD":
		r, err := http.Get(words[0])
		if err != nil {
			return err
		}
		defer r.Body.Close()
		data, err := io.ReadAll(r.Body)
		if err != nil || len(flags) != 1 || flags[0] != fmt.Sprintf("--checksum=sha256:%x", sha256.Sum256(data)) {
			return fmt.Errorf("the hash of %s is not that of %q: %w", words[0], flags, err)
		}
		s.archives[words[1]+path.Base(words[0])] = data
		return nil
	case "WORKDIR":
		s.dir = words[0]
		return nil
	case "RUN":
		for command := range strings.SplitSeq(words[0], " && ") {
			if err := s.run(command); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("%s is no instruction of a stage", instruction)
}

func (s *stageOf) run(command string) error {
	words := strings.Fields(command)
	switch {
	case words[0] == "unzip" && words[1] == "-qj", words[0] == "unzip" && words[1] == "-p":
		data := s.archives[words[2]]
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return err
		}
		names, to := words[3:], ""
		if at := slices.Index(words, ">"); at > 0 {
			names, to = words[3:at], words[at+1]
		}
		for _, n := range names {
			text, err := fs.ReadFile(z, n)
			if err != nil {
				return err
			}
			at := path.Base(n)
			if to != "" {
				at = to
			}
			s.files[path.Join(s.dir, at)] = imagetest.File{Type: tar.TypeReg, Data: string(text), Size: int64(len(text))}
		}
		return nil
	case words[0] == "ln" && words[1] == "-sf" && len(words) == 4:
		s.files[path.Join(s.dir, words[3])] = imagetest.File{Type: tar.TypeSymlink, Link: words[2], Mode: 0o777}
		return nil
	case command == "chmod 644 *":
		return nil
	}
	return fmt.Errorf("%s is no command of a stage", command)
}

// indexOf serves a package index with NVIDIA's wheels for CUDA 11, 12 and 13.
func indexOf(t *testing.T) string {
	t.Helper()
	files := map[string][]byte{}
	pages := map[string]string{}
	for _, id := range provide.Libraries() {
		for _, cuda := range []string{"11", "12", "13"} {
			for _, dist := range provide.WheelsOf(id, cuda) {
				for _, release := range releasesOf(dist, cuda) {
					if data := wheelOf(t, dist, release); data != nil {
						file := fmt.Sprintf("%s-%s-py3-none-manylinux2014_x86_64.whl", strings.ReplaceAll(dist, "-", "_"), release)
						files["/"+file] = data
						pages["/simple/"+dist+"/"] += fmt.Sprintf("<a href=\"/%s#sha256=%x\">%s</a>\n", file, sha256.Sum256(data), file)
					}
				}
			}
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case pages[r.URL.Path] != "":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<!DOCTYPE html><html><body>%s</body></html>", pages[r.URL.Path])
		case files[r.URL.Path] != nil:
			w.Write(files[r.URL.Path])
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/simple"
}

// releasesOf returns releases of a wheel: those that the tests know, else one with the number of
// its SONAMEs.
func releasesOf(dist, cuda string) []string {
	list := slices.Clone(wheelReleases[dist])
	for _, names := range wheelLibraries(dist, "0") {
		_, number, _ := strings.Cut(names[0], ".so.")
		number, _, _ = strings.Cut(number, ".")
		if !slices.Contains(list, number+".4.99") {
			list = append(list, number+".4.99")
		}
	}
	if len(list) == 0 {
		list = []string{"9.1.0.70", "2.21.5"}
	}
	return list
}

// wheelOf returns a wheel of NVIDIA's, or nil if the tests know no library of it.
func wheelOf(t *testing.T, dist, release string) []byte {
	t.Helper()
	libraries := wheelLibraries(dist, release)
	if len(libraries) == 0 {
		return nil
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name string, data []byte) {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	bld := &builder{image: &imagetest.Image{}}
	for at, names := range libraries {
		add(at, bld.inWheel(names).Bytes())
	}
	add(fmt.Sprintf("%s-%s.dist-info/License.txt", strings.ReplaceAll(dist, "-", "_"), release), []byte("the licence"))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
