package startup

import (
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// user is the user of a process. uid is -1 and home "" if they are not known.
type user struct {
	name string
	uid  int
	home string
}

// findUser returns the user that USER names, as moby/sys/user does: by name or number in
// the image's /etc/passwd. A number that it lacks has the home directory "/".
func findUser(fsys *layers.FS, spec string) user {
	name, _, _ := strings.Cut(spec, ":")
	if name == "" {
		name = "0"
	}
	number, err := strconv.Atoi(name)
	numeric := err == nil
	text, why := content(fsys, "/etc/passwd")
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 6 {
			continue
		}
		if uid, err := strconv.Atoi(f[2]); err == nil && (f[0] == name || numeric && uid == number) {
			home := f[5]
			if home == "" {
				home = "/"
			}
			return user{f[0], uid, home}
		}
	}
	switch {
	case number == 0 && numeric:
		return user{"root", 0, "/root"} // which every passwd has
	case numeric && why == "":
		return user{"", number, "/"}
	case numeric:
		return user{"", number, ""}
	}
	return user{name, -1, ""}
}

// content returns the bytes of a file of the image, or why they are not known.
func content(fsys *layers.FS, p string) (text, why string) {
	e, _, ok := fsys.Lookup(p)
	switch {
	case !ok:
		return "", "there is no such file"
	case e.Type != layers.Regular:
		return "", "it is not a regular file"
	case e.Fault != "":
		return "", e.Fault
	case e.Size > maxScript:
		return "", "it is larger than a script that is read"
	case e.Content == nil && e.Size > 0:
		return "", "its content was not kept"
	}
	return string(e.Content), ""
}
