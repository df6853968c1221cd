package pyenv

import (
	"bytes"
	"strings"
)

// venvConfig is a pyvenv.cfg (PEP 405).
type venvConfig struct {
	dir     string // of the file; "" if there is none
	home    string // "" if the file has no such key
	system  bool   // include-system-site-packages, true without the key
	version string // version or version_info, as it stands there
	unread  bool   // the file is there, but its bytes are not known
}

// readVenv reads the first pyvenv.cfg of some directories.
func (f files) readVenv(dirs ...string) venvConfig {
	for _, dir := range dirs {
		b, there, kept := f.read(dir + "/pyvenv.cfg")
		if !there {
			continue
		}
		c := parseVenv(b)
		c.dir, c.unread = dir, !kept
		return c
	}
	return venvConfig{}
}

// parseVenv parses a pyvenv.cfg as getpath.py and site.py do: the first home counts, and
// the last of the other keys.
func parseVenv(b []byte) venvConfig {
	c := venvConfig{system: true}
	for line := range bytes.Lines(b[:min(len(b), maxText)]) {
		key, value, ok := strings.Cut(string(line), "=")
		if !ok || len(line) > maxLine {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "home":
			if c.home == "" {
				c.home = value
			}
		case "include-system-site-packages":
			c.system = strings.EqualFold(value, "true")
		case "version", "version_info":
			c.version = value
		}
	}
	return c
}

// Bounds of the texts of an image.
const (
	maxText    = 1 << 20 // bytes of a file
	maxLine    = 1 << 12 // bytes of a line: PATH_MAX
	maxEntries = 4096    // of sys.path, or another search list
)
