package fix

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// change returns the command that the first fix of a finding names, which changes a file, or nil
// if it names none, or the file cannot be changed like that.
func (m *maker) change(now *replay.Image, f *lint.Finding) *install {
	if len(f.Advice) == 0 {
		return nil
	}
	c, ok := f.Advice[0].Change()
	if !ok {
		return nil
	}
	i := &install{manager: "run", step: Step{Kind: "install", Path: c.Path, StandIn: true}}
	e, _, found := now.FS.Lookup(c.Path)
	switch {
	case c.Does == "link" && !found && c.Target != "":
		i.command = "ln -s " + Shell(c.Target) + " " + Shell(c.Path)
		i.step.files = []file{linkFile(c.Path, c.Target)}
	case !found || e.Type != layers.Regular:
		return nil
	case c.Does == "executable":
		i.command = "chmod +x " + Shell(c.Path)
		n := file{File: patch.File{Path: c.Path, Mode: e.Mode.Perm() | 0o111, UID: e.UID, GID: e.GID, Size: e.Size}, object: e.Object, content: e.Content, shebang: e.Shebang, of: e}
		i.step.files = []file{n}
	case c.Does == "unix-lines" && int64(len(e.Content)) == e.Size:
		i.command = fmt.Sprintf(`sed -i 's/\r$//' %s`, Shell(c.Path))
		text := string(bytes.ReplaceAll(e.Content, []byte("\r\n"), []byte("\n")))
		text = strings.TrimSuffix(text, "\r")
		n := textFile(c.Path, text)
		n.Mode, n.of, n.shebang = e.Mode.Perm(), e, strings.TrimSuffix(e.Shebang, "\r")
		i.step.files = []file{n}
	default:
		return nil
	}
	return i
}
