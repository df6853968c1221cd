package builds_test

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/pkg/builds"
)

// opener returns the files of an archive, and counts how often it is asked.
func opener(a *txtar.Archive, asked *int) builds.Open {
	return func(name string) ([]byte, error) {
		*asked++
		for _, f := range a.Files {
			if f.Name == name {
				return f.Data, nil
			}
		}
		return nil, errors.New("there is no such file")
	}
}

// The builds of a Compose file are those that `docker compose config` shows: with what it
// includes, extends and overrides, each at its place.
func TestOfFiles(t *testing.T) {
	a := txtar.Parse([]byte(`
-- app/compose.yaml --
include:
  - gpu/services.yaml
  - path: [../shared/one.yaml, ../shared/two.yaml]
  - path: ../shared/dir.yaml
    project_directory: ..
  - absent.yaml
  - oci://registry.example/app:1
  - {path: "${FILE}"}
services:
  web: {image: nginx}
  api:
    extends: {file: ../shared/base.yaml, service: gpu}
    build:
      target: api
      args: [B=3]
  plain: {extends: {file: ../shared/base.yaml, service: gpu}}
  own: {extends: api, build: ./own}
  none: {extends: else}
  loop: {extends: loop}
  dropped: {extends: api, build: !reset null}
  alone: {extends: api, build: !override {context: alone}}
  inline: {extends: {file: ../shared/base.yaml, service: inline}}
  anchored: {extends: {service: api}}
-- app/gpu/services.yaml --
include: [../compose.yaml, services.yaml]
services:
  cuda: {build: {context: ., dockerfile: Dockerfile.cuda}}
-- shared/one.yaml --
services:
  train: {build: {context: train, args: {A: "1", B: "1"}}}
-- shared/two.yaml --
services:
  train: {build: {target: fast, args: {B: "2"}}}
-- shared/dir.yaml --
services:
  dir: {build: dir}
-- shared/base.yaml --
services:
  gpu:
    extends: {service: root}
    build: {dockerfile: Dockerfile.gpu, args: {A: "1", B: "2"}}
  root: {build: img}
  inline:
    build:
      dockerfile_inline: |
        FROM scratch
-- app/compose.override.yaml --
services:
  api: {build: {target: dev}}
  new: {build: new}
-- app/compose.gpu.yaml --
services:
  own: {build: {args: {CUDA: "12"}}}
  api: {build: {context: other}}
`))
	for file, want := range map[string]string{
		"app/compose.yaml": `
app/compose.yaml 14 api: ../shared/img/Dockerfile.gpu in ../shared/img target api A=1 B=3
shared/base.yaml 4 plain: ../shared/img/Dockerfile.gpu in ../shared/img A=1 B=2
app/compose.yaml 17 own: own/Dockerfile.gpu in ./own target api A=1 B=3
app/compose.yaml 18 none:  in  (it extends else, which app/compose.yaml does not have)
app/compose.yaml 19 loop:  in  (it extends others in more than 20 steps, or itself)
app/compose.yaml 21 alone: alone/Dockerfile in alone
shared/base.yaml 8 inline: ../shared/Dockerfile in ../shared inline at 9: "FROM scratch\n"
app/compose.yaml 14 anchored: ../shared/img/Dockerfile.gpu in ../shared/img target api A=1 B=3
app/gpu/services.yaml 3 cuda: gpu/Dockerfile.cuda in gpu
app/gpu/services.yaml 1 include:  in  (app/compose.yaml includes itself)
app/gpu/services.yaml 1 include:  in  (app/gpu/services.yaml includes itself)
shared/one.yaml 2 train: ../shared/train/Dockerfile in ../shared/train A=1 B=1
shared/two.yaml 2 train: ../shared/train/Dockerfile in ../shared/train target fast A=1 B=2
shared/dir.yaml 2 dir: ../dir/Dockerfile in ../dir
app/compose.yaml 6 include:  in  (app/absent.yaml is not read: there is no such file)
app/compose.yaml 7 include:  in  (oci://registry.example/app:1 is no path in the repository)
app/compose.yaml 8 include:  in  (its path is ${FILE})`,
		"app/compose.override.yaml": `
app/compose.override.yaml 2 api: ../shared/img/Dockerfile.gpu in ../shared/img target dev A=1 B=3
app/compose.override.yaml 3 new: new/Dockerfile in new`,
		"app/compose.gpu.yaml": `
app/compose.gpu.yaml 2 own: own/Dockerfile.gpu in ./own target api A=1 B=3 CUDA=12
app/compose.gpu.yaml 3 api: other/Dockerfile in other`,
	} {
		asked := 0
		text, _ := opener(a, &asked)(file)
		list, err := builds.OfFiles(file, text, opener(a, &asked))
		got := ""
		for _, b := range list {
			got += "\n" + b.File + " " + written([]builds.Build{b}, nil)
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", file, err, diff)
		}
	}
}

// Files without end, that double one another, or are large end in a line, after few reads.
func TestOfFilesIsBounded(t *testing.T) {
	big := strings.Repeat("#", 1<<20-100)
	var many strings.Builder
	for i := range 400 {
		fmt.Fprintf(&many, "- f%d.yaml\n", i)
	}
	for want, text := range map[string]string{
		"more than 10 steps":  "include: [DEEP]\n",
		"more than 100 files": "include:\n" + many.String(),
		"more than 8 MiB":     "include: [" + strings.Join([]string{"b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9"}, ", ") + "]\n",
		"is no YAML":          "include: [broken]\n",
		"1024 KiB":            "include: [huge]\n",
	} {
		asked, deep := 0, 0
		open := func(name string) ([]byte, error) {
			asked++
			switch base := path.Base(name); {
			case strings.HasPrefix(base, "b") && base != "broken":
				return []byte(big), nil
			case base == "broken":
				return []byte("a: ["), nil
			case base == "huge":
				return make([]byte, 2<<20), nil
			case strings.HasPrefix(base, "DEEP"):
				deep++
				return fmt.Appendf(nil, "include: [DEEP%d, DEEP%d]\n", deep*2, deep*2+1), nil
			}
			return []byte("services: {}\n"), nil
		}
		list, err := builds.OfFiles("compose.yaml", []byte(text), open)
		if got := written(list, err); !strings.Contains(got, want) || asked > 120 {
			t.Errorf("want %s, asked %d times: %.300s", want, asked, got)
		}
	}
}

// FuzzOfFiles states: two files that may name one another end in builds or an error, twice the
// same, after few reads, and each build names a file that was read.
func FuzzOfFiles(f *testing.F) {
	f.Add([]byte("include: [b.yaml]\nservices:\n  a: {extends: {file: b.yaml, service: b}, build: {args: [A=1]}}\n"), []byte("services:\n  b: {build: {context: x, args: {A: 2}}}\n"))
	f.Add([]byte("services: {a: {extends: a}}\n"), []byte("include: [compose.yaml]\n"))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		read := func() ([]builds.Build, error) {
			asked := 0
			return builds.OfFiles("d/compose.yaml", one, func(string) ([]byte, error) {
				if asked++; asked > 100 {
					t.Error("more than 100 files are read")
				}
				return two, nil
			})
		}
		list, err := read()
		again, err2 := read()
		if (err == nil) != (err2 == nil) || cmp.Diff(list, again) != "" {
			t.Fatal("the same files give two results")
		}
		for _, b := range list {
			if b.File == "" || b.Line < 1 || b.Dockerfile == "" && b.Why == "" {
				t.Errorf("%+v", b)
			}
		}
	})
}
