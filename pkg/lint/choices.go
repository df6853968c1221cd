package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// choiceMissing returns a finding for each package that lacks the build that it chooses.
func choiceMissing(pass *Pass) []Finding {
	var list []Finding
	for _, c := range pass.Packages.Choose() {
		if slices.Contains(c.Builds, c.Path) {
			continue
		}
		var names []string
		for _, b := range c.Builds {
			names = append(names, path.Base(b))
		}
		v := c.Values()
		v["builds"], v["effect"] = strings.Join(names, ", "), c.Release.Effect
		v["error"] = packs.Fill(c.Release.Error, packs.Values{"path": c.Path, "name": path.Base(c.Path)})
		f := pass.say("build-not-there", c.By, v)
		pass.also(&f, "others", v)
		f.Subject, f.Affected, f.Present = c.Path, []string{c.Pkg.Path}, pass.Image.FilesOf(c.Builds)
		f.NeededBy = []replay.File{pass.Image.File(c.Pkg.Path)}
		list = append(list, f)
	}
	return list
}
