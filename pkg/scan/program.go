package scan

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"sync"
)

// program returns the identity of the running program: what the go command recorded of
// the build, else the linker's build ID, which depends on all that was linked, else the
// digest of the program file.
var program = sync.OnceValues(func() (string, error) {
	info, _ := debug.ReadBuildInfo()
	if id := recorded(info); id != "" {
		return id, nil
	}
	name, err := os.Executable()
	if err != nil {
		return "", err
	}
	if id := linked(name); id != "" {
		return id, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return "program " + hex.EncodeToString(sum.Sum(nil)), nil
})

// linked returns the build ID in a program file, or "".
func linked(name string) string {
	f, err := elf.Open(name)
	if err != nil {
		return "" // not Linux's
	}
	defer f.Close()
	s := f.Section(".note.go.buildid")
	if s == nil || s.Size > 4096 {
		return ""
	}
	const header = 16 // of the note, with its name
	note, err := s.Data()
	if err != nil || len(note) <= header {
		return ""
	}
	return "linked " + hex.EncodeToString(note[header:])
}

// recorded returns the commit or the module's checksum that a build was made from. It
// returns "" if files have changed since the commit, if a module was taken from a
// directory (replace, go.work), and if nothing was recorded.
func recorded(info *debug.BuildInfo) string {
	if info == nil || slices.ContainsFunc(info.Deps, unsummed) {
		return ""
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	from := ""
	switch {
	case info.Main.Sum != "":
		from = info.Main.Sum
	case settings["vcs.revision"] != "" && settings["vcs.modified"] == "false":
		from = settings["vcs.revision"]
	default:
		return ""
	}
	return fmt.Sprintf("%s %s %s %s/%s", info.Path, from, info.GoVersion, settings["GOOS"], settings["GOARCH"])
}

// unsummed reports whether the files of a dependency are not known by a checksum.
func unsummed(m *debug.Module) bool {
	if m.Replace != nil {
		m = m.Replace
	}
	return m.Sum == ""
}
