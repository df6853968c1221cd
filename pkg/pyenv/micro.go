package pyenv

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// micro sets Micro from the first source that says it: the header patchlevel.h, conda's
// records, pyvenv.cfg, dpkg's and apk's databases, PYTHON_VERSION of Docker's images.
func (b *boot) micro() {
	for _, from := range []func() string{b.fromHeader, b.fromConda, b.fromDirectory, b.fromVenv, b.fromDpkg, b.fromApk, b.fromDocker} {
		if b.setMicro(from()) {
			return
		}
	}
}

var releaseText = regexp.MustCompile(`^(\d)\.(\d{1,2})\.(\d{1,3})`)

// setMicro sets Micro from a release, if that is one of this Python.
func (b *boot) setMicro(release string) bool {
	m := releaseText.FindStringSubmatch(release)
	if m == nil || m[1]+"."+m[2] != fmt.Sprintf("%d.%d", b.Major, b.Minor) {
		return false
	}
	n, err := strconv.Atoi(m[3])
	if err == nil {
		b.Micro = n
	}
	return err == nil
}

var patchLevel = regexp.MustCompile(`(?m)^#define\s+PY_VERSION\s+"([^"\n]{1,40})"`)

func (b *boot) fromHeader() string {
	for _, flags := range []string{"", "m"} {
		text, _, _ := b.read(b.BasePrefix + "/include/" + b.subdir + flags + "/patchlevel.h")
		if m := patchLevel.FindSubmatch(text); m != nil {
			return string(m[1])
		}
	}
	return ""
}

// fromConda reads the name of conda-meta/python-3.11.7-hab00c5b_0_cpython.json.
func (b *boot) fromConda() string {
	for e := range b.fs.In(b.real(b.BasePrefix + "/conda-meta")) {
		if v, ok := strings.CutPrefix(path.Base(e.Path), "python-3."); ok {
			return "3." + v
		}
	}
	return ""
}

// fromDirectory reads the release in the directory of uv's and pyenv's Pythons:
// cpython-3.11.9-linux-x86_64-gnu, versions/3.11.9.
func (b *boot) fromDirectory() string {
	dir := path.Base(b.BasePrefix)
	return strings.TrimPrefix(dir, "cpython-")
}

func (b *boot) fromVenv() string {
	near := parent(b.Path)
	return b.readVenv(near, parent(near)).version
}

// fromDpkg reads the version of Debian's package pythonX.Y-minimal.
func (b *boot) fromDpkg() string {
	if b.BasePrefix != "/usr" {
		return ""
	}
	name := b.subdir + "-minimal"
	for _, file := range []string{"/var/lib/dpkg/status", "/var/lib/dpkg/status.d/" + name} {
		text, _, _ := b.read(file)
		if v := fieldAfter(string(text), "Package: "+name+"\n", "Version: ", "\n\n"); v != "" {
			return v
		}
	}
	return ""
}

func (b *boot) fromApk() string {
	if b.BasePrefix != "/usr" {
		return ""
	}
	for _, file := range []string{"/lib/apk/db/installed", "/usr/lib/apk/db/installed"} {
		text, _, _ := b.read(file)
		if v := fieldAfter(string(text), "P:python3\n", "V:", "\n\n"); v != "" {
			return v
		}
	}
	return ""
}

// fieldAfter returns the value of a field that follows a line, before the end of the
// paragraph.
func fieldAfter(text, line, field, end string) string {
	text = "\n" + text
	i := strings.Index(text, "\n"+line)
	if i < 0 {
		return ""
	}
	text, _, _ = strings.Cut(text[i+len(line):], end)
	_, v, _ := strings.Cut("\n"+text, "\n"+field)
	v, _, _ = strings.Cut(v, "\n")
	return strings.TrimSpace(v)
}

// fromDocker reads the variable of Docker's official images, whose Python is in
// /usr/local.
func (b *boot) fromDocker() string {
	if b.BasePrefix != "/usr/local" {
		return ""
	}
	return b.o.Env["PYTHON_VERSION"]
}
