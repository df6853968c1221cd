package replay

import (
	"path"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// maxPlugins limits the plug-ins that a process opens; a healthy installation has some twenty.
const maxPlugins = 64

// plugins opens the files that libraries open by themselves after an open has brought
// objects from the index loaded on. m is the opened object. A file that cannot be opened has
// no effect, as in the library.
func (h *pythonHost) plugins(m *elfdeps.Module, loaded int) {
	for _, row := range h.files.packs.Plugins {
		among := h.proc.Objects[loaded:]
		if len(row.Calls) > 0 {
			if m == nil || !slices.ContainsFunc(row.Calls, m.Object.Symbols.Takes) {
				continue
			}
			among = h.proc.Objects
		}
		for _, by := range slices.Clone(among) {
			if row.Opens(by.Object.Soname, by.Real()) {
				h.plug(by, row)
			}
		}
	}
}

// plug opens the files of a row for the library by.
func (h *pythonHost) plug(by *elfdeps.Module, row *packs.Plugin) {
	for _, pattern := range row.Files {
		for _, file := range h.files.Glob(path.Dir(by.Real()), pattern) {
			e, _, ok := h.files.img.FS.Lookup(file)
			if !ok || e.Object == nil || e.Object.LoadEnd > e.Size {
				continue
			}
			if h.plugged++; h.plugged > maxPlugins {
				return
			}
			_, _ = h.proc.DlopenFlags(by, file, packs.FlagsOf(row.Flags))
		}
	}
	for _, name := range row.Names {
		if h.plugged++; h.plugged > maxPlugins {
			return
		}
		_, _ = h.proc.DlopenFlags(by, name, packs.FlagsOf(row.Flags))
	}
}
