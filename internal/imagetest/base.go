package imagetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
)

// Bounds of a text and its bases.
const (
	maxBases = 8       // texts below one text
	maxText  = 4 << 20 // bytes of one text
)

// Flatten reads the text name from fsys, lays it over the text that it is built on, and returns the result as a text for
// Parse. It returns a text without a base unchanged. The lines for it stand among those of the configuration:
//
//	base NAME                  builds on NAME.txtar beside the text, or on base/NAME.txtar; the first line after the prose
//	- N/PATH                   removes the base's files of this name; N/PATH/ removes all files below PATH
//	- DIRECTIVE ...            removes this line from the base's configuration
//
// The base's configuration comes first, then the text's own. The base's files keep their order; a file of the text replaces
// the base's file of the same name in its place, and all other files follow. Layer N is the same layer in both texts.
// Sections that belong to no layer, such as "want", are not inherited.
//
// A base may have a base. Removing what the base does not have is an error, and so is repeating one of its files unchanged.
func Flatten(fsys fs.FS, name string) ([]byte, error) {
	data, err := readText(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("reading image text: %w", err)
	}
	archive, err := flatten(fsys, name, data, nil)
	if err != nil {
		return nil, fmt.Errorf("reading image text: %w", err)
	}
	if archive == nil {
		return data, nil
	}
	return txtar.Format(archive), nil
}

// flatten returns nil for a text without a base. above lists the texts that are built on this one.
func flatten(fsys fs.FS, name string, data []byte, above []string) (*txtar.Archive, error) {
	own := txtar.Parse(data)
	d, err := parseHead(string(own.Comment))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if d.base == "" {
		return nil, nil
	}
	above = append(above, name)
	file, err := findBase(fsys, name, d.base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if slices.Contains(above, file) || len(above) > maxBases {
		return nil, fmt.Errorf("%s is built on itself, or on more than %d texts", strings.Join(append(above, file), " on "), maxBases)
	}
	under, err := readText(fsys, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	base, err := flatten(fsys, file, under, above)
	if err != nil {
		return nil, err
	}
	if base == nil {
		base = txtar.Parse(under)
	}
	d.files = own.Files
	if own, err = d.over(base); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return own, nil
}

func readText(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxText {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxText)
	}
	return data, nil
}

// findBase returns the file of the base that the text name is built on.
func findBase(fsys fs.FS, name, base string) (string, error) {
	var found []string
	for _, file := range slices.Compact([]string{path.Join(path.Dir(name), base+".txtar"), "base/" + base + ".txtar"}) {
		if _, err := fs.Stat(fsys, file); err == nil {
			found = append(found, file)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("base %s: %w", base, err)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("base %s: %d texts have this name, want one, beside this text or in base/", base, len(found))
	}
	return found[0], nil
}

// difference is a text that has a base, taken apart.
type difference struct {
	base    string
	removed []string // names of files and lines of configuration
	lines   []string // prose and configuration
	files   []txtar.File
}

func parseHead(comment string) (*difference, error) {
	d, directives := &difference{}, 0
	for i, line := range strings.Split(strings.TrimSuffix(comment, "\n"), "\n") {
		word, arg := cutWord(line)
		switch {
		case word == "base" && directives > 0:
			return nil, fmt.Errorf("line %d: base must be the first line after the prose, once", i+1)
		case word == "-" && d.base == "":
			return nil, fmt.Errorf("line %d: only a text with a base can remove lines or files", i+1)
		case word == "base" && arg == "", word == "-" && arg == "":
			return nil, fmt.Errorf("line %d: %s: nothing follows", i+1, word)
		case word == "base":
			d.base = arg
		case word == "-":
			d.removed = append(d.removed, arg)
		default:
			d.lines = append(d.lines, line)
		}
		if word != "" && word[0] != '#' {
			directives++
		}
	}
	return d, nil
}

// over lays the text over its base.
func (d *difference) over(base *txtar.Archive) (*txtar.Archive, error) {
	found := map[string]bool{} // whether the base has it, for each of d.removed
	for _, name := range d.removed {
		found[name] = false
	}
	removes := func(name string) bool {
		_, ok := found[name]
		if ok {
			found[name] = true
		}
		return ok
	}
	var lines []string
	for _, line := range strings.Split(string(base.Comment), "\n") {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' && !removes(line) {
			lines = append(lines, line)
		}
	}
	kept := slices.DeleteFunc(base.Files, func(f txtar.File) bool {
		if _, _, ok := cutLayer(f.Name); !ok || removes(f.Name) {
			return true
		}
		return slices.ContainsFunc(parents(f.Name), removes)
	})
	for _, name := range d.removed {
		if !found[name] {
			return nil, fmt.Errorf("base %s does not have %s, which is removed", d.base, name)
		}
	}
	files, err := d.filesOver(kept)
	return &txtar.Archive{Comment: []byte(strings.Join(append(lines, d.lines...), "\n") + "\n"), Files: files}, err
}

// parents returns the directories above a file, each ending in a slash.
func parents(name string) []string {
	var dirs []string
	for i, c := range name {
		if c == '/' {
			dirs = append(dirs, name[:i+1])
		}
	}
	return dirs
}

// filesOver replaces files of the base by the text's files of the same names, and appends the others.
func (d *difference) filesOver(base []txtar.File) ([]txtar.File, error) {
	at := map[string][]int{}
	for i, f := range base {
		at[f.Name] = append(at[f.Name], i)
	}
	for _, f := range d.files {
		places := at[f.Name]
		if len(places) == 0 {
			base = append(base, f)
			continue
		}
		if bytes.Equal(base[places[0]].Data, f.Data) {
			return nil, fmt.Errorf("%s: base %s has the same file", f.Name, d.base)
		}
		base[places[0]], at[f.Name] = f, places[1:]
	}
	return base, nil
}
