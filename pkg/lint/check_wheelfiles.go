package lint

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// reinstall advises the command that puts a wheel's own files back.
func reinstall(pass *Pass, name, version string) []packs.Advice {
	return pass.advice("reinstall", packs.Values{"wheel": strings.ReplaceAll(name, "_", "-"), "version": version})
}

// wheelFilesChanged finds GPU libraries of wheels that have another size than the
// wheel's RECORD says: something has put another file in their place, or has
// stripped or patched them.
func wheelFilesChanged(pass *Pass) []Finding {
	var list []Finding
	for p, pkg := range pass.Packages.EachWheel() {
		for _, file := range slices.Sorted(maps.Keys(pkg.Files)) {
			size, changed := pass.Files.ChangedSize(file, pkg.Files[file])
			if !changed {
				continue
			}
			f := pass.say("wheel-file-changed", "size", packs.Values{"file": path.Base(file), "size": strconv.FormatInt(size, 10), "wheel": pkg.Name, "version": pass.Packages.Version(p, pkg), "listed": strconv.FormatInt(pkg.Files[file].Size, 10)})
			f.Subject, f.Library, f.Affected, f.Present = file, path.Base(file), []string{file}, []replay.File{pass.Image.File(file)}
			f.advise(reinstall(pass, pkg.Name, pkg.Version)...)
			if twin := pass.Files.Twin(file); twin != "" {
				pass.also(&f, "twin", packs.Values{"twin": twin})
				f.Present = append(f.Present, pass.Image.File(twin))
			}
			list = append(list, f)
		}
	}
	return list
}
