package packs

import (
	"fmt"
	"path"
	"strings"
)

// Exception is a set of files that are judged differently from others, with the reason.
// The comments below name the section: optional, any_of or absent.
type Exception struct {
	Match string `yaml:"match"`
	Why   string `yaml:"why"`
	// Within (any_of) is the name of a directory below which the files lie, each in its
	// place; empty: they lie in one directory.
	Within string `yaml:"within"`
	// Effect is what fails if none of the files can be loaded (any_of; empty: nothing), or
	// without the file (absent). Error is how that reads.
	Effect  string   `yaml:"effect"`
	Error   string   `yaml:"error"`
	Fix     string   `yaml:"fix"`
	Sources []string `yaml:"sources"`
}

func (x *Exception) validate() error {
	if x.Match == "" || x.Why == "" || len(x.Sources) == 0 {
		return fmt.Errorf("exception %q: needs a match, a why and sources", x.Match)
	}
	return checkPatterns("exception", []string{x.Match})
}

// Beside returns the directory that holds a file and those that can replace it.
func (x *Exception) Beside(file string) string {
	dir := path.Dir(file)
	if within := "/" + x.Within + "/"; x.Within != "" {
		if i := strings.LastIndex(dir+"/", within); i >= 0 {
			return dir[:i+len(within)-1]
		}
	}
	return dir
}

// Exceptions are the exceptions of a section.
type Exceptions []*Exception

// For returns the first exception that a file matches, or nil.
func (list Exceptions) For(file string) *Exception {
	for _, x := range list {
		if Match(x.Match, file) {
			return x
		}
	}
	return nil
}

// OneOf returns the reason for which a file is one of several of which a program chooses
// one, or "" if it is not.
func (p *Packs) OneOf(file string) string {
	if x := p.AnyOf.For(file); x != nil {
		return x.Why
	}
	return ""
}
