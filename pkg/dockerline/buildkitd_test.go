//go:build buildkitd

package dockerline

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/tooltest"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// builds are Dockerfiles in which each instruction that makes a layer makes a file mark-N
// in it, where N is the instruction's line. BASE has two layers, with base-1 and base-2.
var builds = []struct {
	name, text string
	args       []string // build arguments and other options, for buildctl
	unknown    string   // why the history gives no lines; "" if it gives them
}{
	{name: "one", text: "FROM BASE\nRUN mark 2\n"},
	{name: "several", text: "FROM BASE\nENV A=b\nRUN mark 3\nCOPY mark-x /mark-4\nWORKDIR /\nRUN mark 6\nCMD [\"x\"]\n"},
	{name: "continued", text: "# syntax comment\nFROM BASE\n\nRUN true && \\\n  # why\n  mark 4 && \\\n  true\n\nRUN mark 9\n"},
	{name: "heredoc", text: "FROM BASE\nRUN <<EOF\nmark 2\n\ntrue\nEOF\nRUN mark 7\n"},
	{name: "heredoc with an interpreter", text: "FROM BASE\nRUN <<EOF\n#!/bin/sh\nmark 2\nEOF\nRUN mark 6\n"},
	{name: "heredoc of a command", text: "FROM BASE\nRUN sh <<EOF && mark 2\ntrue\nEOF\nRUN mark 5\n"},
	{name: "heredoc copied", text: "FROM BASE\nCOPY <<a <<b /mark-2/\none\na\ntwo\nb\nRUN mark 7\n"},
	{name: "stages", text: "FROM BASE AS build\nRUN mark 2\nRUN mark 3\nFROM BASE\nCOPY --from=build /mark-2 /mark-5\nCOPY --from=0 /mark-3 /mark-6\n"},
	{name: "stage on stage", text: "FROM BASE AS low\nRUN mark 2\nFROM low AS middle\nRUN mark 4\nFROM middle\nRUN mark 6\n"},
	{name: "target", text: "FROM BASE AS low\nRUN mark 2\nFROM low AS prod\nRUN mark 4\nFROM low AS test\nRUN mark 6\n", args: []string{"target=prod"}},
	{name: "link", text: "FROM BASE\nCOPY --link mark-x /mark-2\nRUN mark 3\nCOPY --link mark-x /mark-4\n"},
	{name: "argument in FROM", text: "ARG IMAGE=no/such:image\nARG TAG=x\nFROM ${IMAGE}\nARG TAG\nRUN mark 5 $TAG\n", args: []string{"build-arg:IMAGE=BASE"}},
	{name: "arguments", text: "FROM BASE\nARG A=default\nARG B\nENV C=$A-$B\nRUN mark 5 $A\nCOPY mark-x /mark-6\nENV D=${C}x\n", args: []string{"build-arg:A=given", "build-arg:B=two words"}},
	{name: "argument that decides a path", text: "FROM BASE\nARG N=3\nCOPY mark-x /mark-${N}\n"},
	{name: "environment of the base", text: "FROM BASE\nENV PATH=/opt/bin:$PATH\nENV MORE=$BASE_VARIABLE:x\nRUN mark 4\n"},
	{name: "cache mount", text: "FROM BASE\nRUN --mount=type=cache,target=/root/.cache mark 2\nRUN --mount=type=bind,source=.,target=/ctx mark 3\n"},
	{name: "exec form", text: "FROM BASE\nRUN [\"/bin/sh\", \"-c\", \"mark 2\"]\nSHELL [\"/bin/sh\", \"-e\", \"-c\"]\nRUN mark 4\n"},
	{name: "scratch", text: "FROM BASE AS b\nRUN mark 2\nFROM scratch\nCOPY --from=b /mark-2 /mark-4\nCOPY mark-x /mark-5\n"},
	{name: "the same command twice", text: "FROM BASE\nRUN mark 2 3\nRUN mark 3\nRUN mark 4\n"},
	{name: "stages that begin alike", text: "FROM BASE AS a\nRUN mark 2 7\nRUN mark 3\nFROM BASE AS b\nENV X=y\nFROM BASE\nCOPY --from=a /mark-3 /mark-7\n"},
	{name: "stages with one command", text: "FROM BASE AS a\nRUN mark 2 5\nRUN mark 3\nFROM BASE\nRUN mark 5 2\nCOPY --from=a /mark-3 /mark-6\n"},
	{name: "shared first step", text: "FROM BASE AS a\nENV A=1\nFROM BASE AS c\nCOPY --from=a /base-1 /mark-4\nRUN mark 5\n"},
	{name: "working directory", text: "FROM BASE\nWORKDIR /mark-2\nRUN mark 3\nWORKDIR /mark-4/mark-4\n"},
	{name: "added", text: "FROM BASE\nADD mark-x /mark-2\nADD --chown=1:1 mark-x /mark-3\nCOPY --chmod=600 mark-x /mark-4\n"},
	{name: "all that makes no layer", text: "FROM BASE\nMAINTAINER me\nLABEL a=b c=\"d e\"\nEXPOSE 80 90/udp\nUSER 0\nVOLUME /v\nSTOPSIGNAL 9\nHEALTHCHECK CMD true\nONBUILD RUN true\nRUN mark 10\nENTRYPOINT [\"a\"]\nCMD b c\n"},
	{name: "onbuild of a stage", text: "FROM BASE AS low\nONBUILD RUN mark 3\nFROM low\nRUN mark 4\n", unknown: "a stage runs the ONBUILD of another one"},
	{name: "carriage returns", text: "FROM BASE\r\nRUN mark 2 && \\\r\n  true\r\nRUN mark 4\r\n"},
	{name: "escape directive", text: "# escape=`\nFROM BASE\nRUN true && `\n  mark 3\nRUN mark 5\n"},
	{name: "zstd", text: "FROM BASE\nRUN mark 2\nRUN mark 3\n", args: []string{"compression=zstd,force-compression=true"}},
	{name: "v0.2", text: "FROM BASE\nRUN mark 2\nRUN mark 3\n", args: []string{"attest:provenance=mode=max,version=v0.2"}},
	{name: "from a stage on scratch", text: "FROM BASE AS a\nRUN mark 2\nFROM scratch AS out\nCOPY --from=a /mark-2 /lib/x\nCOPY mark-x /lib/y\nFROM BASE\nCOPY --from=out /lib/x /mark-7\nCOPY --from=out /lib/ /mark-8/\nCOPY --from=out /lib/y /mark-9\n"},
	{name: "from a whole stage", text: "FROM BASE AS a\nRUN mark 2\nENV A=b\nRUN mark 4\nFROM BASE\nCOPY --from=a / /mark-6/\nCOPY --from=a /mark-2 /mark-4 /mark-7/\n"},
	{name: "from a stage by a pattern", text: "FROM BASE AS a\nRUN mark 2\nRUN mark 3\nFROM BASE\nCOPY --from=a /mark-* /mark-5/\n"},
	{name: "from a stage by links", text: "FROM BASE AS a\nRUN mark 2\nFROM scratch AS b\nCOPY --link mark-x /y\nCOPY --link --from=a /mark-2 /x\nFROM BASE\nCOPY --link --from=b /x /mark-7\nCOPY --link --from=b /y /mark-8\n"},
	{name: "from a stage with mounts", text: "FROM BASE AS a\nRUN --mount=type=cache,target=/c mark 2\nCOPY mark-x /d/x\nRUN --mount=type=tmpfs,target=/d mark 4\nFROM BASE\nCOPY --from=a /mark-2 /mark-6\nCOPY --from=a /d/x /mark-7\n"},
	{name: "from a stage on a stage", text: "FROM BASE AS low\nRUN mark 2\nFROM low AS high\nRUN mark 4\nFROM low AS other\nRUN mark 6\nFROM BASE\nCOPY --from=high /mark-2 /mark-8\nCOPY --from=high /mark-4 /mark-9\nCOPY --from=other /mark-6 /mark-10\n"},
	{name: "from a document", text: "FROM scratch AS a\nCOPY <<x <<z /d/\n2\nx\n6\nz\nFROM BASE\nCOPY --from=a /d/x /mark-8\nCOPY --from=a /d /mark-9/\n"},
	{name: "from a stage with parents", text: "FROM BASE AS a\nRUN mark 2\nFROM BASE\nCOPY --parents --from=a /mark-2 /mark-4/\n"},
	{name: "from an image", text: "FROM BASE\nCOPY --from=BASE /base-1 /mark-2\nCOPY mark-x /mark-3\n"},
	{name: "from stages that begin alike", text: "FROM BASE AS a\nRUN mark 2 4\nFROM BASE AS b\nRUN mark 2 4\nRUN mark 5\nFROM BASE\nCOPY --from=a /mark-2 /mark-7\nCOPY --from=b /mark-2 /mark-8\n"},
	{name: "copied over", text: "FROM BASE AS a\nRUN mark 2\nRUN mark 3\nFROM BASE AS b\nCOPY --from=a /mark-2 /x\nCOPY --from=a /mark-3 /x\nRUN mark 7\nFROM BASE\nCOPY --from=b /x /mark-9\n"},
	{name: "arguments of the platform", text: "FROM BASE\nARG TARGETARCH\nARG HTTP_PROXY\nRUN mark 4 $TARGETARCH\nENV A=$TARGETARCH\nRUN mark 6\n"},
	{name: "shell and documents", text: "FROM BASE\nSHELL [\"/bin/sh\", \"-e\", \"-c\"]\nRUN <<'EOF'\nmark 3\nEOF\nWORKDIR /\nCOPY <<EOF /mark-7\nx\nEOF\nRUN mark 10\n"},
	{name: "argument repeated in stages", text: "ARG V=1\nFROM BASE AS a\nARG V\nRUN mark 4 $V\nFROM BASE\nARG V\nENV X=$V\nCOPY --from=a /mark-4 /mark-8\nRUN mark 9 $X\n", args: []string{"build-arg:V=2"}},
	{name: "users and directories", text: "FROM BASE\nUSER 1000:1000\nWORKDIR /mark-3\nUSER 0\nRUN mark 5\nWORKDIR /\nWORKDIR mark-7\n"},
	{name: "network and mounts", text: "FROM BASE\nRUN --network=none mark 2\nRUN --mount=type=tmpfs,target=/t --mount=type=cache,id=a,target=/c mark 3\n"},
	{name: "quotes", text: "FROM BASE\nENV A=\"a b\" B='c d'\nRUN mark 3 \"$A\" && true # x\nLABEL x=\"$A\" y=$B\nCOPY [\"mark-x\", \"/mark-5\"]\nARG C=\"${A} e\"\nRUN mark 7 \"$C\"\n"},
	{name: "stages alike", text: "FROM BASE AS a\nRUN mark 2 4\nFROM BASE AS b\nRUN mark 2 4\nFROM BASE\nCOPY --from=a /mark-2 /mark-6\n", args: []string{"target=a"}, unknown: "several stages"},
	{name: "min", text: "FROM BASE\nRUN mark 2\n", args: []string{"attest:provenance=mode=min"}},
	{name: "none", text: "FROM BASE\nRUN mark 2\n", args: []string{"attest:"}},
}

// TestBuilds builds each Dockerfile, and compares the lines of the layers with the files
// that are in them.
func TestBuilds(t *testing.T) {
	addr, reg := tooltest.Buildkitd(t), imagetest.Serve(t)
	base := pushBase(t, reg)
	followed := 0 // files whose instruction in another stage is known
	for i, b := range builds {
		t.Run(b.name, func(t *testing.T) {
			text := strings.ReplaceAll(b.text, "BASE", base)
			if b.name == "environment of the base" {
				text = strings.Replace(text, base+"_VARIABLE", "BASE_VARIABLE", 1)
			}
			ref := fmt.Sprintf("%s/built:%d", reg.Host, i)
			buildImage(t, addr, text, ref, strings.ReplaceAll(strings.Join(b.args, "\n"), "BASE", base))
			img, err := source.Open(t.Context(), ref, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer img.Close()
			want := marksOf(t, ref)
			raw, err := img.Provenance(t.Context())
			if b.name == "none" {
				if !errors.Is(err, source.ErrNoProvenance) {
					t.Errorf("error %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				if dir := os.Getenv("KEEP"); dir != "" {
					os.WriteFile(filepath.Join(dir, strings.ReplaceAll(b.name, " ", "-")+".json"), raw, 0o644)
				}
				lines, err := linesOf(raw, img.Layers)
				followed += checkFollowed(t, raw, img.Layers, ref, text)
				switch {
				case b.name == "min":
					if !errors.Is(err, errMin) {
						t.Errorf("error %v", err)
					}
				case err != nil:
					t.Errorf("%v\n%s", err, raw)
				default:
					compareMarks(t, "by provenance", text, lines, want)
				}
			}
			checkHistory(t, img, text, b.unknown, want)
		})
	}
	t.Logf("%d files are followed to one instruction", followed)
	if followed < 8 {
		t.Error("few files are followed to one instruction")
	}
}

// TestBaseShell builds an image whose base has a shell and a directory of its own.
func TestBaseShell(t *testing.T) {
	addr, reg := tooltest.Buildkitd(t), imagetest.Serve(t)
	base, ref := reg.Host+"/base:shell", reg.Host+"/built:shell"
	buildImage(t, addr, "FROM "+pushBase(t, reg)+"\nSHELL [\"/bin/sh\", \"-e\", \"-c\"]\nWORKDIR /srv\n", base, "")
	text := "FROM " + base + "\nRUN mark 2\nWORKDIR mark-3\nCOPY mark-x /mark-4\n"
	buildImage(t, addr, text, ref, "")
	img, err := source.Open(t.Context(), ref, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	checkHistory(t, img, text, "", marksOf(t, ref))
}

// checkFollowed compares the ways of files through stages with what is in the files: the
// line that has made each. It returns how many have one instruction at their end.
func checkFollowed(t *testing.T, raw []byte, layers []source.Layer, ref, text string) (sure int) {
	t.Helper()
	p, err := FromProvenance(raw, layers)
	if err != nil {
		return 0
	}
	file := strings.Split(text, "\n")
	for i, files := range filesOf(t, ref) {
		for name, content := range files {
			way := p.Follow(i, name)
			if l := p.Lines[i]; l == nil || !strings.Contains(l.Instruction, "--from=") || strings.Contains(l.Instruction, "--from=127.") {
				if way != nil {
					t.Errorf("%s of %+v is from %+v", name, l, way)
				}
				continue
			}
			if len(way) == 0 {
				t.Errorf("%s of %+v is not followed", name, p.Lines[i])
				continue
			}
			last := way[len(way)-1]
			made, _ := strconv.Atoi(strings.TrimSpace(content))
			right := func(l Line) bool {
				switch {
				case made > 0 && l.Line <= made && made <= l.EndLine:
					return true
				case len(last.Lines) > 1 && strings.Contains(l.Instruction, "--from="):
					return true // it is not followed further
				case made > 0:
					return file[l.Line-1] == file[made-1] // one step of two stages
				case content == "x":
					return strings.HasSuffix(strings.Fields(l.Instruction)[len(strings.Fields(l.Instruction))-2], "mark-x")
				}
				return l.Base // a file of the base
			}
			if !slices.ContainsFunc(last.Lines, right) {
				t.Errorf("%s with %q of %s is from %+v", name, content, p.Lines[i].Instruction, way)
			}
			if len(last.Lines) == 1 {
				sure++
			}
		}
	}
	return sure
}

// filesOf returns the texts of the regular files in each layer of an image that are below a
// mark.
func filesOf(t *testing.T, ref string) (all []map[string]string) {
	t.Helper()
	eachFile(t, ref, func(layer int, h *tar.Header, r io.Reader) {
		for len(all) <= layer {
			all = append(all, map[string]string{})
		}
		if h == nil || h.Typeflag != tar.TypeReg || !strings.Contains(h.Name, "mark-") {
			return
		}
		b, err := io.ReadAll(io.LimitReader(r, 100))
		if err != nil {
			t.Fatal(err)
		}
		all[layer]["/"+strings.TrimPrefix(h.Name, "/")] = string(b)
	})
	return all
}

// compareMarks compares lines with the marks in the layers, which are 0 for a layer of the base.
func compareMarks(t *testing.T, how, text string, lines []*Line, want [][]int) {
	t.Helper()
	file := strings.Split(text, "\n")
	for i, l := range lines {
		switch {
		case l == nil:
			t.Errorf("%s: layer %d of lines %v has no line", how, i+1, want[i])
		case len(want[i]) == 0:
			if !l.Base || !strings.HasPrefix(file[l.Line-1], "FROM ") {
				t.Errorf("%s: layer %d of the base has %+v", how, i+1, l)
			}
		case l.Base || !slices.Contains(want[i], l.Line):
			t.Errorf("%s: layer %d of lines %v has %+v", how, i+1, want[i], l)
		}
	}
}

// marksOf returns the marks in each layer of an image.
func marksOf(t *testing.T, ref string) (all [][]int) {
	t.Helper()
	eachFile(t, ref, func(layer int, h *tar.Header, _ io.Reader) {
		if h == nil {
			all = append(all, nil)
			return
		}
		for part := range strings.SplitSeq(strings.Trim(h.Name, "/"), "/") {
			if n, ok := strings.CutPrefix(part, "mark-"); ok {
				line, err := strconv.Atoi(n)
				if err != nil {
					t.Fatal(h.Name)
				}
				all[layer] = append(all[layer], line)
				break // below it may be others of another stage
			}
		}
	})
	return all
}

// eachFile calls f for each layer of an image, and for each entry in it.
func eachFile(t *testing.T, ref string, f func(layer int, h *tar.Header, r io.Reader)) {
	t.Helper()
	r, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(r, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"}))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range layers {
		rc, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		f(i, nil, nil)
		for tr := tar.NewReader(rc); ; {
			h, err := tr.Next()
			if err != nil {
				break
			}
			f(i, h, tr)
		}
		rc.Close()
	}
}

func buildImage(t *testing.T, addr, text, ref, options string) {
	t.Helper()
	dir := t.TempDir()
	for file, content := range map[string]string{"Dockerfile": text, "mark-x": "x"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	output := "type=image,name=" + ref + ",push=true,registry.insecure=true"
	args := []string{"build", "--frontend", "dockerfile.v0", "--local", "context=" + dir, "--local", "dockerfile=" + dir}
	attest := "attest:provenance=mode=max"
	for o := range strings.SplitSeq(options, "\n") {
		switch {
		case strings.HasPrefix(o, "compression="):
			output += "," + o
		case strings.HasPrefix(o, "attest:"):
			attest = o
		case o != "":
			args = append(args, "--opt", o)
		}
	}
	if attest != "attest:" {
		args = append(args, "--opt", attest)
	}
	if out, err := tooltest.Buildctl(t, addr, append(args, "--output", output)...); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
}

// pushBase pushes the base and returns its reference.
func pushBase(t *testing.T, reg *imagetest.Server) string {
	t.Helper()
	sh := filepath.Join(t.TempDir(), "sh")
	build := exec.Command("go", "build", "-o", sh, "./testdata/sh")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(sh)
	if err != nil {
		t.Fatal(err)
	}
	var layers []v1.Layer
	for _, file := range []struct {
		name string
		data []byte
	}{{"bin/sh", program}, {"base-1", nil}} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		w.WriteHeader(&tar.Header{Name: file.name, Mode: 0o755, Size: int64(len(file.data))})
		w.Write(file.data)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, l)
	}
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture, cfg.Config.Env = "linux", "amd64", []string{"PATH=/usr/bin:/bin", "BASE_VARIABLE=of the base"}
	cfg.History = []v1.History{{CreatedBy: "ADD rootfs"}, {CreatedBy: "ENV BASE_VARIABLE=of the base", EmptyLayer: true}, {CreatedBy: "RUN base"}}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		t.Fatal(err)
	}
	ref, err := reg.Push("base:1", img)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// checkHistory compares the lines by the history, which knows none of the base. With
// another instruction in the file there are none at all, unless it is in a stage that the
// image is not built on.
func checkHistory(t *testing.T, img *source.Image, text, unknown string, want [][]int) {
	t.Helper()
	cfg, err := v1.ParseConfigFile(bytes.NewReader(img.RawConfig)) // img.Config lacks the build arguments
	if err != nil {
		t.Fatal(err)
	}
	lines, _, err := FromHistory(t.Context(), "Dockerfile", []byte(text), cfg)
	if unknown != "" {
		if err == nil || !strings.Contains(err.Error(), unknown) {
			t.Errorf("by history: %v, want %s", err, unknown)
		}
		return
	}
	if err != nil {
		t.Errorf("by history: %v\n%s", err, text)
		for _, h := range img.Config.History {
			t.Logf("%q", h.CreatedBy)
		}
		return
	}
	var own []*Line
	var made [][]int
	for i, l := range lines {
		if l != nil || len(want[i]) > 0 {
			own, made = append(own, l), append(made, want[i])
		}
	}
	compareMarks(t, "by history", text, own, made)
	before := brief(lines)
	for _, edit := range [][2]string{{"mark-", "other-"}, {"RUN mark", "RUN other"}} {
		if i := strings.LastIndex(text, edit[0]); i >= 0 {
			if lines, _, err := FromHistory(t.Context(), "Dockerfile", []byte(text[:i]+edit[1]+text[i+len(edit[0]):]), cfg); err == nil && (strings.Count(text, "FROM ") == 1 || brief(lines) != before) {
				t.Errorf("by history: an edited file gives %s", brief(lines))
			}
		}
	}
}
