package buildchecks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

var amd64 = ocispec.Platform{OS: "linux", Architecture: "amd64"}

func run(t *testing.T, text string, base func(string) *Base) (list []string) {
	t.Helper()
	if base == nil {
		base = func(string) *Base { return nil }
	}
	warnings, err := Run(context.Background(), []byte(text), amd64, base)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		list = append(list, fmt.Sprintf("%d %s %s", w.Line, w.Rule, w.Message))
	}
	return list
}

func TestRun(t *testing.T) {
	known := func(string) *Base { return &Base{Env: []string{"LD_LIBRARY_PATH=/x"}, Platform: amd64} }
	arm := func(string) *Base { return &Base{Platform: ocispec.Platform{OS: "linux", Architecture: "arm64"}} }
	for name, x := range map[string]struct {
		text string
		base func(string) *Base
		want []string
	}{
		"clean":          {"FROM a\nRUN true\nCMD [\"b\"]\n", nil, nil},
		"casing":         {"FROM a as b\nRUN true\n", nil, []string{"1 FromAsCasing 'as' and 'FROM' keywords' casing do not match"}},
		"unknown base":   {"FROM a\nENV LD_LIBRARY_PATH=/y:$LD_LIBRARY_PATH\n", nil, nil},
		"known base":     {"FROM a\nENV LD_LIBRARY_PATH=/y:$LD_LIBRARY_PATH\n", known, nil},
		"undefined":      {"FROM a\nENV X=$NOPE\n", known, []string{"2 UndefinedVar Usage of undefined variable '$NOPE'"}},
		"platform":       {"FROM a\nRUN true\n", arm, []string{"1 InvalidBaseImagePlatform Base image a was pulled with platform \"linux/arm64\", expected \"linux/amd64\" for current build"}},
		"given argument": {"ARG BASE\nFROM $BASE\nRUN true\n", nil, []string{"2 InvalidDefaultArgInFrom Default value for ARG $BASE results in empty or invalid base image name"}},
		"build error":    {"FROM a\nRUNN x\n", nil, []string{"2  unknown instruction: RUNN (did you mean RUN?)"}},
		"mounts":         {"FROM a\nRUN --mount=type=cache,target=/x,uid=1 --mount=type=secret,id=s,env=S --network=none true\nCOPY --link --chmod=755 --parents x /\nADD --checksum=sha256:24454f830cdb571e2c4ad15481119c43b3cafd48dd869a9b2945d1036d1dc68d https://x.org/a /b\nADD https://github.com/x/y.git#v1 /y\n", nil, nil},
		"skipped":        {"# check=skip=JSONArgsRecommended\nFROM a\nCMD x\n", nil, nil},
		"image of a COPY": {"FROM a\nCOPY --from=b /x /\nENV A=$B\n", func(ref string) *Base {
			if strings.HasSuffix(ref, "a") || strings.Contains(ref, "a:") {
				return new(Base)
			}
			return nil
		}, []string{"3 UndefinedVar Usage of undefined variable '$B'"}},
	} {
		if diff := cmp.Diff(x.want, run(t, x.text, x.base)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A text beyond the limits does not reach BuildKit.
func TestBounds(t *testing.T) {
	text := "ARG A=aaaa\n" + strings.Repeat("ARG A=$A$A\n", 40) + "FROM $A\n"
	if _, err := Run(context.Background(), []byte(text), amd64, func(string) *Base { return nil }); err == nil || !strings.Contains(err.Error(), "longer than 16 MiB") {
		t.Error(err)
	}
	grown := "FROM a\n" + strings.Repeat("ENV A=$A$A\n", 12)
	huge := func(string) *Base { return &Base{Env: []string{"A=" + strings.Repeat("x", 1<<20)}} }
	if _, err := Run(context.Background(), []byte(grown), amd64, huge); err == nil {
		t.Error("it is accepted")
	}
}

// TestCharacters checks that BuildKit's shell, which writes to the standard error for characters
// that are no text, does not get them.
func TestCharacters(t *testing.T) {
	said, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	stderr := os.Stderr
	os.Stderr = said
	defer func() { os.Stderr = stderr }()
	text := []byte("FROM a\nENV A=\x00\x00 B=\xff\nRUN pip install $A \xfe\x00\n")
	if _, err := Run(t.Context(), text, amd64, func(string) *Base { return nil }); err != nil {
		t.Error(err)
	}
	if _, err := History(t.Context(), text, Build{Platform: amd64}); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(said.Name()); err != nil || len(b) > 0 {
		t.Errorf("%q, %v", b, err)
	}
}
