package packs

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/imgcheck/imgcheck/internal/version"
)

// Pair maps releases of a package to the releases of another that are built for them, both
// by major and minor number.
type Pair struct {
	Package  string            `yaml:"package"`
	For      string            `yaml:"for"`
	Versions map[string]string `yaml:"versions"` // releases of For → releases of Package
	Error    string            `yaml:"error"`    // printed if they do not fit
	// CUDA says how far the CUDA versions of their builds must agree, "major" or "minor".
	// CUDAError is printed if they do not.
	CUDA      string `yaml:"cuda"`
	CUDAError string `yaml:"cuda_error"`
	// Index is the URL of an index with builds of For that PyPI does not have: those whose
	// version has a local part, {build}, that matches one of the patterns Builds.
	Index   string   `yaml:"index"`
	Builds  []string `yaml:"builds"`
	Sources []string `yaml:"sources"`
}

func (p *Pair) validate() error {
	if p.Package == "" || p.For == "" || len(p.Versions) == 0 || len(p.Sources) == 0 {
		return fmt.Errorf("pair %q: needs a package, what it is for, versions and sources", p.Package)
	}
	if p.CUDA != "" && p.CUDA != "major" && p.CUDA != "minor" {
		return fmt.Errorf("pair %s: cuda is major or minor, not %q", p.Package, p.CUDA)
	}
	return checkPatterns("pair "+p.Package, p.Builds)
}

// CudaNumbers returns how many numbers of the CUDA versions must agree.
func (p *Pair) CudaNumbers() int {
	if p.CUDA == "major" {
		return 1
	}
	return 2
}

// IndexOf returns the URL of the index that has a build of the other package by the local
// part of its version (PyPI has no 2.6.0+cu124), or "".
func (p *Pair) IndexOf(version string) string {
	build := LocalOf(version)
	if !MatchAny(p.Builds, build) {
		return ""
	}
	return Fill(p.Index, Values{"build": build})
}

// LocalOf returns the local part of a version (cu124, cpu), or "".
func LocalOf(version string) string {
	_, local, _ := strings.Cut(version, "+")
	return local
}

// CudaOfBuild returns the CUDA version in the local part of a version, or "": 12.4 for
// 2.6.0+cu124, 11.8 for 2.0.0+cu118, 13.0 for 2.9.0+cu130.
func CudaOfBuild(version string) string {
	m := cudaLocal.FindStringSubmatch(LocalOf(version))
	if m == nil {
		return ""
	}
	return m[1] + "." + m[2]
}

var cudaLocal = regexp.MustCompile(`^cu(\d{2})(\d)$`)

// IsPEP440 reports whether a text from the image is a version and nothing else. Fixes
// are commands that people copy, so no other text from an image may stand in them.
func IsPEP440(s string) bool {
	_, err := version.Parse(s)
	return err == nil && !strings.ContainsFunc(s, unicode.IsSpace)
}
