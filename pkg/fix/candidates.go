package fix

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// candidate holds steps that may resolve a finding.
type candidate struct {
	text  string // the change in short, without its result
	steps []Step
	// grow returns the candidate extended by the libraries that its trial has shown to be
	// missing, or nil if there are none. It may be nil.
	grow func(*lint.Result) *candidate
}

// maker makes candidates for the findings of one state: the image with the steps of groups.
type maker struct {
	Options
	packs     *packs.Packs
	base      *replay.Image        // the image without steps
	inventory *inventory.Inventory // of base
	now       state
	groups    []group
	stock     *stock
}

// kinds maps the kinds of changes that a rule may name to functions, which return
// candidates for a finding, the best first.
var kinds = map[string]func(*maker, context.Context, *lint.Finding) ([]candidate, error){
	"link":      local((*maker).links),
	"path":      local((*maker).paths),
	"drop":      local((*maker).drops),
	"remove":    local((*maker).removals),
	"ldconf":    local((*maker).caches),
	"execstack": (*maker).stacks,
	"unpreload": local((*maker).unpreloads),
	"variable":  local((*maker).variables),
	"add":       (*maker).adds,
	"newer":     (*maker).newer,
	"replace":   (*maker).replacements,
}

// local returns a kind that needs no source of libraries.
func local(of func(*maker, *lint.Finding) []candidate) func(*maker, context.Context, *lint.Finding) ([]candidate, error) {
	return func(m *maker, _ context.Context, f *lint.Finding) ([]candidate, error) { return of(m, f), nil }
}

// maxOfKind limits the candidates that one kind offers for one finding.
const maxOfKind = 6

// directories returns the directories in which a finding's library is present. Those near
// the file that needs it come first: in its site-packages, in its prefix.
func directories(f *lint.Finding) []string {
	var list []string
	for _, file := range offers(f) {
		if dir := path.Dir(file.Path); !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	near := ""
	if len(f.NeededBy) > 0 {
		near = f.NeededBy[0].Path
	}
	slices.SortStableFunc(list, func(a, b string) int { return common(b, near) - common(a, near) })
	return list
}

// common returns how many directories two paths share from the root.
func common(a, b string) int {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	n := 0
	for n < len(as) && n < len(bs) && as[n] == bs[n] {
		n++
	}
	return n
}

// hashed matches the names that auditwheel gives to the libraries it copies into a wheel.
var hashed = regexp.MustCompile(`-[0-9a-f]{8}\.so`)

// offered reports whether other files may use a library. A stub serves to link with, and
// fails when it is called; a library that a wheel has vendored belongs to that wheel alone;
// files below the driver's mounts are covered when the image runs.
func offered(file string) bool {
	return !hashed.MatchString(path.Base(file)) && !covered(path.Dir(file)) && !strings.Contains(path.Dir(file)+"/", ".libs/")
}

// covered reports whether other files run in place of those in a directory: stubs, and the
// libraries that the driver's mounts and the container runtime bring.
func covered(dir string) bool {
	parts := strings.Split(dir, "/")
	return slices.Contains(parts, "stubs") || slices.Contains(parts, "compat") || strings.HasPrefix(dir+"/", "/usr/local/nvidia/")
}

// plainName returns the name that a library had before auditwheel changed it:
// libcudnn.so.9.1.0 for libcudnn-74a4c495.so.9.1.0.
func plainName(name string) string { return hashed.ReplaceAllString(path.Base(name), ".so") }

// Limits for images that have thousands of files, elements or findings of one kind.
const (
	maxOffers   = 32
	maxSiblings = 64
	maxElements = 256
	maxRemoved  = 256
)

// offers returns the files that a finding lists as present and that others may use.
func offers(f *lint.Finding) []replay.File {
	var list []replay.File
	for _, file := range f.Present {
		if offered(file.Path) && len(list) < maxOffers {
			list = append(list, file)
		}
	}
	return list
}

// isSystem reports whether a directory belongs to the distribution's packages.
func isSystem(dir string) bool {
	rest, ok := strings.CutPrefix(dir, "/usr")
	if !ok {
		rest = dir
	}
	return rest == "" || dir == "/" || strings.HasPrefix(rest+"/", "/lib/") || strings.HasPrefix(rest+"/", "/lib64/") || strings.HasPrefix(rest+"/", "/bin/") || strings.HasPrefix(rest+"/", "/sbin/") || dir == "/usr/local/lib" || dir == "/usr/local/bin"
}

// guilty returns the real directories of the files that a finding is about.
func (m *maker) guilty(f *lint.Finding) map[string]bool {
	dirs := map[string]bool{}
	for _, s := range subjects(f) {
		dirs[m.real(path.Dir(s))] = true
		dirs[path.Dir(m.real(s))] = true
	}
	return dirs
}

// real returns the path with links followed, as far as its directories exist.
func (m *maker) real(s string) string {
	if e, _, ok := m.now.img.FS.Lookup(s); ok {
		return "/" + e.Path
	}
	return realPath(m.now.img.FS, s)
}

// wrong returns the path of the file that the loader finds and cannot use, or that lacks
// a version or symbol; "" for another kind of finding.
func wrong(f *lint.Finding) string {
	if slices.Contains([]packs.Kind{packs.Missing, packs.Unusable, packs.Version, packs.Symbol}, f.Kind) && strings.HasPrefix(f.Subject, "/") {
		return f.Subject
	}
	return ""
}

// subjects returns the files that a finding is about: the copy that was bound and lacks
// the symbol or version; if there is none, the file that is wrong, and those present.
func subjects(f *lint.Finding) []string {
	if f.BoundTo != nil {
		return []string{f.BoundTo.Path}
	}
	var list []string
	if file := wrong(f); file != "" {
		list = append(list, file)
	}
	for _, file := range f.Present {
		if !slices.Contains(list, file.Path) {
			list = append(list, file.Path)
		}
	}
	return list
}
