package inventory

import (
	"bufio"
	"bytes"
	"strings"
)

// Distribution is the image's distribution by os-release(5).
type Distribution struct {
	ID      string `json:"id"`                // "debian", "ubuntu", "alpine", "rhel"
	Version string `json:"version,omitempty"` // "12", "24.04"
	// Like are the IDs of the distributions that it is built from, the nearest first.
	Like []string `json:"like,omitempty"`
}

// Is reports whether a distribution is that of an ID, or built from it.
func (d *Distribution) Is(id string) bool {
	if d == nil {
		return false
	}
	if d.ID == id {
		return true
	}
	for _, l := range d.Like {
		if l == id {
			return true
		}
	}
	return false
}

func isOSRelease(name string) bool { return name == "etc/os-release" || name == "usr/lib/os-release" }

// readOSRelease reads the assignments of os-release. /etc/os-release, which comes first, is
// usually a link to the other one.
func readOSRelease(inv *Inventory, _ string, b []byte) error {
	if inv.Distribution != nil {
		return nil
	}
	d := &Distribution{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		name, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), "=")
		value = strings.Trim(value, `"'`)
		if len(value) > maxText {
			continue
		}
		switch name {
		case "ID":
			d.ID = value
		case "VERSION_ID":
			d.Version = value
		case "ID_LIKE":
			d.Like = strings.Fields(value)
		}
	}
	if d.ID != "" {
		inv.Distribution = d
	}
	return nil
}
