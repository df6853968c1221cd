package provide

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/internal/version"
)

// maxLicence bounds the text of a licence, in bytes; NVIDIA's have 120,000.
const maxLicence = 2 << 20

// choose returns the newest set that has the names and fits the versions, from the first
// directory that has it. doubt is set if the version is not known.
func (r *request) choose(all []*set) (best *set, doubt string, err error) {
	if len(all) == 0 {
		return nil, "", absent("has no such library for %s", r.Arch)
	}
	slices.SortStableFunc(all, func(a, b *set) int { return version.Compare(b.version, a.version) })
	var why []string
	for _, s := range all {
		if missing := s.lacks(r.Names); len(missing) > 0 {
			why = append(why, fmt.Sprintf("%s has no %s", s.title(), strings.Join(missing, ", ")))
			continue
		}
		switch {
		case s.version != "" && r.spec.allowCoarse(s.version):
			return s, "", nil
		case s.version != "":
			why = append(why, s.title()+" does not fit")
		case r.Pin != "":
			why = append(why, fmt.Sprintf("%s has no version that could be made out, and %s is asked for", s.title(), r.Pin))
		case best == nil:
			best = s
		}
	}
	if best == nil {
		return nil, "", absent("%s", strings.Join(why, ", "))
	}
	if len(r.spec.text) > 0 {
		doubt = fmt.Sprintf("the release could not be made out, so that %s could not be checked", r.spec)
	}
	return best, doubt, nil
}

// title returns a set's name for messages: its version, or its first file.
func (s *set) title() string {
	name := s.dir
	if len(s.files) > 0 && s.version == "" {
		name = s.files[0].name
	} else if s.version != "" {
		name = s.version
	}
	return name
}

// licensed sets the library and the licence.
func (f *Found) licensed(r *request, text string) {
	if r.lib == nil {
		return
	}
	f.Library = r.lib.ID
	f.License = r.lib.license.license()
	f.License.Text = text
}

// isLicence reports whether a file name is a licence's.
func isLicence(name string) bool {
	n := strings.ToLower(name)
	for _, stem := range []string{"license", "licence", "eula", "copying"} {
		rest, ok := strings.CutPrefix(n, stem)
		if ok && (rest == "" || rest == ".txt" || rest == ".md" || rest == ".rst") {
			return true
		}
	}
	return n == "ngc-dl-container-license"
}

// licenceText returns a licence's text, or "" if it is not UTF-8 or too long.
func licenceText(r io.Reader) string {
	b, err := io.ReadAll(io.LimitReader(r, maxLicence+1))
	if err != nil || len(b) > maxLicence || !utf8.Valid(b) {
		return ""
	}
	return string(b)
}
