package lint

import (
	"regexp"
	"strings"
)

var quotedVersion = regexp.MustCompile("version `([^`']+)'")

// typed gives a finding that no clause has made its kind, cause and subject, by its
// message.
func (f *Finding) typed() {
	missing := strings.Contains(f.Message, "cannot open shared object file") || strings.HasPrefix(f.Message, "Error loading shared library ")
	switch {
	case f.Cause != "":
		return
	case missing && f.Library != "":
		f.Kind, f.Cause = Missing, "missing "+f.Library
	default:
		f.Cause = f.Rule + " " + f.Message
	}
	if m := quotedVersion.FindStringSubmatch(f.Message); m != nil && f.Symbol == "" {
		f.Version = m[1]
	}
	if file, _, ok := strings.Cut(f.Message, ": "); ok && (strings.HasPrefix(file, "/") || f.Rule == "executable-stack") {
		f.Subject = file
		if f.Kind == "" {
			f.Kind = Unusable
		}
	}
}
