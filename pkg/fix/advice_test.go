package fix

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// The lines of a Dockerfile by which a finding's fixes change the search path.
var (
	envAdvice  = regexp.MustCompile(`(?:^|, and )ENV LD_LIBRARY_PATH=(\S+)$`)
	linkAdvice = regexp.MustCompile(`^RUN ln -s (\S+) (/[^\s,]+)`)
	layerOf    = regexp.MustCompile(`(?m)^-- (\d+)/`)
)

// follow returns a text image with the advice applied, or "" for advice of another kind.
func follow(text, advice string) string {
	env, link := envAdvice.FindStringSubmatch(advice), linkAdvice.FindStringSubmatch(advice)
	if env == nil && link == nil {
		return ""
	}
	if link != nil {
		top := 0
		for _, m := range layerOf.FindAllStringSubmatch(text, -1) {
			n, _ := strconv.Atoi(m[1])
			top = max(top, n)
		}
		text += fmt.Sprintf("-- %d%s --\nsymlink %s\n", top+1, link[2], link[1])
	}
	if env != nil {
		text = strings.Replace(text, "\n-- ", "\nenv LD_LIBRARY_PATH="+env[1]+"\n-- ", 1)
	}
	return text
}

// Each fix of the text images' findings that makes a link or sets LD_LIBRARY_PATH, applied
// alone, resolves its finding.
func TestAdviceIsReplayed(t *testing.T) {
	names, err := fs.Glob(images.FS, "*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := fs.Glob(images.FS, "fresh/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	followed := 0
	for _, name := range append(names, fresh...) {
		b, err := images.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		_, want, ok := strings.Cut(string(b), "-- want --\n")
		if ok && !strings.Contains(want, "ENV LD_LIBRARY_PATH=") && !strings.Contains(want, "RUN ln -s ") {
			continue
		}
		_, before := read(t, string(b))
		path := ""
		for _, f := range before.Findings {
			for _, advice := range f.Fixes {
				if env := envAdvice.FindStringSubmatch(advice); env != nil && f.Severity != packs.Note {
					if path != "" && env[1] != path {
						t.Errorf("%s: the last ENV of a Dockerfile counts, and there are two: %s and %s", name, path, env[1])
					}
					path = env[1]
				}
				text := follow(string(b), advice)
				if text == "" || f.Severity == packs.Note {
					continue
				}
				followed++
				_, after := read(t, text)
				if slices.ContainsFunc(after.Findings, func(g lint.Finding) bool { return g.Rule == f.Rule && g.Message == f.Message }) {
					t.Errorf("%s: %s is still there after %q", name, f.Message, advice)
				}
			}
		}
	}
	if followed < 20 {
		t.Errorf("%d pieces of advice were followed", followed)
	}
	t.Logf("%d pieces of advice were followed", followed)
}
