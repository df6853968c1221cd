package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/tooltest"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// prediction is a text of testdata/predictions: a Dockerfile, the wheels of its index, and what
// its image is built from. The lines of its head:
//
//	base TEXT [N]      the image that FROM $BASE names; with a number its first N layers, and the
//	                   files of the others may be those of wheels
//	built TEXT [N]     that image after the other instructions; without it the base itself
//	env NAME=VALUE     a variable of the built image
//	more TEXT          a text image of which wheels have files, besides
//	python 3.10 2.35   the releases of Python and glibc, for the real pip
//	site DIR           where that Python has its packages, without a leading slash
//	pip ARGUMENTS      what the real pip installs
//	wheel FILE REQUIREMENT, …
//	stored FILE …      the same, without compression
//	files FILE GLOB …  files of the texts that the wheel has, by patterns of their paths in site
//	miss LIBRARY WHY   the scan of the built image has a finding about it, which lint has not
//
// Sections FILE.whl/PATH are files of a wheel, and built/PATH of the built image; context/FILE
// belongs to the build context, as each wheel does.
type prediction struct {
	base, built, more, site string
	python                  []string
	env, pip                []string
	files                   map[string][]string
	misses                  map[string]string
	wheels                  map[string][]byte
	requires                map[string]string
	stored                  map[string]bool
	archive                 *txtar.Archive
}

func readPrediction(t *testing.T, file string) *prediction {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := &prediction{archive: a, misses: map[string]string{}, files: map[string][]string{}, wheels: map[string][]byte{}, requires: map[string]string{}, stored: map[string]bool{}}
	for line := range strings.Lines(string(a.Comment)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		first, more, _ := strings.Cut(rest, " ")
		switch word {
		case "base":
			p.base = rest
		case "built":
			p.built = rest
		case "more":
			p.more = rest
		case "files":
			p.files[first] = strings.Fields(more)
		case "env":
			p.env = append(p.env, rest)
		case "python":
			p.python = strings.Fields(rest)
		case "site":
			p.site = rest
		case "pip":
			p.pip = strings.Fields(rest)
		case "wheel", "stored":
			p.requires[first], p.stored[first] = more, word == "stored"
		case "miss":
			p.misses[first] = more
		}
	}
	for name := range p.requires {
		p.wheels[name] = p.wheel(t, name)
	}
	return p
}

// wheel writes a wheel, with METADATA, WHEEL and RECORD.
func (p *prediction) wheel(t *testing.T, file string) []byte {
	t.Helper()
	parts := strings.Split(strings.TrimSuffix(file, ".whl"), "-")
	info := parts[0] + "-" + parts[1] + ".dist-info/"
	meta := "Metadata-Version: 2.1\nName: " + parts[0] + "\nVersion: " + parts[1] + "\n"
	for _, r := range strings.Split(p.requires[file], ", ") {
		if r != "" {
			meta += "Requires-Dist: " + r + "\n"
			if m := extraName.FindStringSubmatch(r); m != nil {
				meta += "Provides-Extra: " + m[1] + "\n"
			}
		}
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	record := ""
	put := func(name string, text []byte) {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		if p.stored[file] {
			h.Method = zip.Store
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		record += fmt.Sprintf("%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
	}
	for _, f := range p.archive.Files {
		name, ok := strings.CutPrefix(f.Name, file+"/")
		if !ok {
			continue
		}
		text := f.Data
		if bytes.HasPrefix(text, []byte("elf ")) {
			e, err := imagetest.ParseELF(string(text))
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			text = e.Bytes()
		}
		put(name, text)
	}
	for name, text := range p.taken(t, p.files[file]) {
		put(name, text)
	}
	put(info+"METADATA", []byte(meta+"\n"))
	put(info+"WHEEL", []byte("Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: "+strings.Join(parts[2:], "-")+"\n"))
	put(info+"RECORD", []byte(record+info+"RECORD,,\n"))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// index serves the wheels as a package index on the loopback, and counts the bytes that are
// fetched of wheels.
func (p *prediction) index(t *testing.T) (url string, fetched *int64) {
	fetched = new(int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if project, ok := strings.CutPrefix(r.URL.Path, "/simple/"); ok {
			project = strings.Trim(project, "/")
			var files []map[string]any
			for _, name := range slices.Sorted(maps.Keys(p.wheels)) {
				if own, _, _ := strings.Cut(name, "-"); strings.ReplaceAll(strings.ToLower(own), "_", "-") == project {
					files = append(files, map[string]any{"filename": name, "url": "/files/" + name, "size": len(p.wheels[name]), "hashes": map[string]string{"sha256": fmt.Sprintf("%x", sha256.Sum256(p.wheels[name]))}})
				}
			}
			if files == nil {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
			_ = json.NewEncoder(w).Encode(map[string]any{"name": project, "files": files, "meta": map[string]any{"api-version": "1.0"}})
			return
		}
		body, ok := p.wheels[strings.TrimPrefix(r.URL.Path, "/files/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		counted := &counting{ResponseWriter: w}
		http.ServeContent(counted, r, "", time.Time{}, bytes.NewReader(body))
		*fetched += counted.n
	}))
	t.Cleanup(server.Close)
	return server.URL + "/simple", fetched
}

type counting struct {
	http.ResponseWriter
	n int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.n += int64(n)
	return n, err
}

// taken yields the files of the texts whose paths in site match patterns.
func (p *prediction) taken(t *testing.T, globs []string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		if len(globs) == 0 {
			return
		}
		name, cut, _ := strings.Cut(p.base, " ")
		from := map[string]int{}
		if n, err := strconv.Atoi(cut); err == nil {
			from[name] = n
		}
		if p.more != "" {
			from[p.more] = 0
		}
		for _, name := range slices.Sorted(maps.Keys(from)) {
			im := parsedText(t, name)
			for n := from[name]; n < len(im.Layers); n++ {
				for file, text := range filesOf(t, im, n) {
					at, ok := strings.CutPrefix(file, p.site+"/")
					if ok && !strings.Contains(at, ".dist-info/") && packs.MatchAny(globs, strings.ReplaceAll(at, "/", "|")) && !yield(at, text) {
						return
					}
				}
			}
		}
	}
}

// filesOf yields the regular files of a layer.
func filesOf(t *testing.T, im *imagetest.Image, n int) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		var b bytes.Buffer
		if err := im.LayerTar(n, &b); err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(&b); ; {
			h, err := r.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if h.Typeflag == tar.TypeReg && !yield(strings.TrimPrefix(h.Name, "/"), text) {
				return
			}
		}
	}
}

func parsedText(t *testing.T, name string) *imagetest.Image {
	t.Helper()
	text, err := images.Text(name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	im, err := imagetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// textImage returns a text image, or its first layers, without what it starts.
func textImage(t *testing.T, name string) v1.Image {
	t.Helper()
	name, cut, _ := strings.Cut(name, " ")
	im := parsedText(t, name)
	if n, err := strconv.Atoi(cut); err == nil {
		im.Layers = im.Layers[:n]
	}
	im.Config.Entrypoint, im.Config.Cmd = nil, []string{"python3"}
	img, err := im.V1()
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// build returns the image that the Dockerfile makes: the real pip installs the packages.
func (p *prediction) build(t *testing.T, index string) v1.Image {
	t.Helper()
	dir := t.TempDir()
	args := []string{"install", "--quiet", "--disable-pip-version-check", "--no-compile", "--no-cache-dir", "--target", dir, "--index-url", index, "--trusted-host", "127.0.0.1", "--only-binary", ":all:", "--python-version", p.python[0], "--platform", "linux_x86_64", "--platform", "manylinux1_x86_64", "--platform", "manylinux2010_x86_64", "--platform", "manylinux2014_x86_64"}
	for _, tag := range []string{"2_5", "2_12", "2_17", "2_24", "2_27", "2_28", "2_31", "2_34", "2_35", "2_36", "2_39"} {
		if old := strings.ReplaceAll(tag, "_", "."); compareReleases(old, p.python[1]) <= 0 {
			args = append(args, "--platform", "manylinux_"+tag+"_x86_64")
		}
	}
	pip := slices.Clone(p.pip)
	for i, arg := range pip {
		if wheel := p.wheels[arg]; wheel != nil { // of the context
			pip[i] = filepath.Join(t.TempDir(), arg)
			if err := os.WriteFile(pip[i], wheel, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.Command(tooltest.Need(t, "pip3", "python3-pip"), append(args, pip...)...)
	cmd.Env = append(os.Environ(), "PIP_CONFIG_FILE=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pip: %v\n%s", err, out)
	}
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := tw.WriteHeader(&tar.Header{Name: p.site + "/" + filepath.ToSlash(rel), Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = tw.Write(text)
		return err
	})
	for _, f := range p.archive.Files {
		if name, ok := strings.CutPrefix(f.Name, "built/"); ok && err == nil {
			text := f.Data
			if bytes.HasPrefix(text, []byte("elf ")) {
				e, bad := imagetest.ParseELF(string(text))
				if bad != nil {
					t.Fatal(bad)
				}
				text = e.Bytes()
			}
			if err = tw.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}); err == nil {
				_, err = tw.Write(text)
			}
		}
	}
	if err == nil {
		err = tw.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(textImage(t, cmp.Or(p.built, p.base)), layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.Config.Env = append(config.Config.Env, p.env...)
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}

func compareReleases(a, b string) int {
	var x, y, m, n int
	fmt.Sscanf(a, "%d.%d", &x, &y)
	fmt.Sscanf(b, "%d.%d", &m, &n)
	return cmp.Or(x-m, y-n)
}

var (
	updatePredictions = flag.Bool("update-predictions", false, "write the want sections of testdata/predictions anew")
	neededNames       = regexp.MustCompile(`needs (?:\S+ of )?(\S+\.so.*), which`)
	extraName         = regexp.MustCompile(`extra == "(\w+)"`)
	otherMessage      = regexp.MustCompile(`\(line \d+\): (.*)$`)
)

// TestPredictions lints the Dockerfiles of testdata/predictions, and compares the result with
// the scan of the image that the real pip makes of them: what lint reports as an error or a
// warning, the scan reports so as well, and what the scan alone reports is listed with the
// reason.
func TestPredictions(t *testing.T) {
	names, err := filepath.Glob("../../testdata/predictions/*.txtar")
	if err != nil || len(names) < 30 {
		t.Fatal(len(names), err)
	}
	server, err := imagetest.Registry()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	predicted, ran := 0, 0
	for _, file := range names {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			p := readPrediction(t, file)
			index, _ := p.index(t)
			lint, text := p.lint(t, server, name, index)
			scan := p.scan(t, server, name, index)
			for library, severity := range lint {
				if got, ok := scan[library]; !ok || got != severity {
					t.Errorf("a false alarm: lint has %s as %s, and the scan as %q", library, severity, got)
				}
			}
			for library, severity := range scan {
				if _, ok := lint[library]; !ok && p.misses[library] == "" {
					t.Errorf("a miss without a reason: the scan has %s as %s", library, severity)
				}
			}
			for library := range p.misses {
				if _, ok := scan[library]; !ok || lint[library] != "" {
					t.Errorf("%s is no miss", library)
				}
			}
			predicted, ran = predicted+len(lint), ran+1
			if strings.HasPrefix(name, "healthy-") && len(lint)+len(scan) > 0 {
				t.Errorf("it is not healthy: %v, %v", lint, scan)
			}
			p.compare(t, file, text)
		})
	}
	if ran == len(names) && predicted < 8 {
		t.Errorf("%d findings were predicted", predicted)
	}
}

// compare compares the findings of lint with the section want.
func (p *prediction) compare(t *testing.T, file, text string) {
	t.Helper()
	for i := range p.archive.Files {
		f := &p.archive.Files[i]
		switch {
		case f.Name != "want":
		case *updatePredictions:
			f.Data = []byte(text)
			if err := os.WriteFile(file, txtar.Format(p.archive), 0o644); err != nil {
				t.Fatal(err)
			}
		case string(f.Data) != text:
			t.Errorf("got\n%swant\n%s", text, f.Data)
		}
	}
}

// lint returns the libraries that lint reports as missing, with their severities, and its
// findings as text.
func (p *prediction) lint(t *testing.T, server *imagetest.Server, name, index string) (map[string]packs.Severity, string) {
	t.Helper()
	ref, err := server.Push("predictions/"+name+":base", textImage(t, p.base))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range p.archive.Files {
		to := strings.TrimPrefix(f.Name, "context/")
		if f.Name != "Dockerfile" && to == f.Name {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, to), bytes.ReplaceAll(f.Data, []byte("$BASE"), []byte(ref)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for file, wheel := range p.wheels {
		if err := os.WriteFile(filepath.Join(dir, file), wheel, 0o644); err != nil { // of the context
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	status := run(context.Background(), []string{"imgcheck", "lint", "--config", "none", "--no-cache", "--insecure", "--fail-on", "never", "--index", index, "--wheels", "64", "-f", "json", dir}, &out, &errs)
	if status != exitOK {
		t.Fatalf("status %d: %s", status, &errs)
	}
	var doc struct {
		Files []dockerlint.File `json:"files"`
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	found, text := map[string]packs.Severity{}, ""
	plain := strings.NewReplacer(ref, "$BASE", strings.TrimPrefix(strings.TrimSuffix(index, "/simple"), "http://"), "$INDEX").Replace
	for _, file := range doc.Files {
		for _, f := range file.Findings {
			if f.Rule != "wheel-needs-library" {
				continue
			}
			text += fmt.Sprintf("%d:%d: %s: %s [%s]\n", f.Line, f.Column, f.Severity, plain(f.Message), f.Rule)
			if f.Because != "" && f.Severity == packs.Note {
				text += "  because: " + plain(f.Because) + "\n"
			}
			switch m, other := neededNames.FindStringSubmatch(f.Message), otherMessage.FindStringSubmatch(f.Message); {
			case f.Severity == packs.Note:
			case m != nil:
				for _, library := range strings.Split(m[1], ", ") {
					found[library] = f.Severity
				}
			case other != nil:
				found[other[1]] = f.Severity
			default:
				found[f.Message] = f.Severity
			}
		}
		for _, u := range file.Unknown {
			text += fmt.Sprintf("%d: not predicted: %s\n", u.Line, plain(u.Why))
		}
	}
	return found, text
}

// scan returns the libraries that the scan of the built image reports for the files of the
// packages, with their severities.
func (p *prediction) scan(t *testing.T, server *imagetest.Server, name, index string) map[string]packs.Severity {
	t.Helper()
	ref, err := server.Push("predictions/"+name+":built", p.build(t, index))
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status := run(context.Background(), []string{"imgcheck", "scan", "--config", "none", "--no-cache", "--insecure", "--no-fixes", "--fail-on", "never", "-f", "json", ref}, &out, &errs)
	if status != exitOK {
		t.Fatalf("status %d: %s", status, &errs)
	}
	doc, err := report.Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]packs.Severity{}
	for i := range doc.Findings {
		f := &doc.Findings[i]
		if f.Severity == packs.Note || !slices.ContainsFunc(report.Paths(f), func(path string) bool { return strings.HasPrefix(path, "/"+p.site+"/") }) {
			continue
		}
		t.Logf("the scan has %s %s: %s", f.Severity, f.Rule, f.Message)
		found[cmp.Or(f.Library, f.Message)] = f.Severity
	}
	return found
}
