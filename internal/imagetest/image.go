package imagetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/tools/txtar"
)

// Image is a container image read from text.
type Image struct {
	Platform    v1.Platform
	Config      v1.Config
	Compression string            // gzip, zstd or none
	Layers      []Layer           // a layer whose number is not used has no files
	Empty       []string          // created_by of the history entries without a layer, which follow all others
	ScanArgs    []string          // arguments of the scan directive, for tests that run the program on this image
	Sections    map[string]string // files that belong to no layer, such as "want", by name
}

// Layer is one layer. Its files keep the order of the text, and a path may occur twice.
type Layer struct {
	CreatedBy string
	Files     []File
}

// Parse reads the text form of an image, a txtar archive. Its comment is the configuration, one directive a line; lines that
// begin with # are prose:
//
//	platform linux/amd64       also the default
//	env NAME=VALUE
//	user NAME
//	workdir DIR
//	volume DIR
//	healthcheck ["CMD", "X"]
//	entrypoint ["JSON"]
//	cmd ["JSON"]
//	label KEY=VALUE
//	layer N CREATED_BY         created_by of layer N in the history
//	empty CREATED_BY           one more history entry, without a layer, after all others
//	compress gzip|zstd|none
//	scan ARGUMENTS             kept in ScanArgs
//	base NAME                  an error here: Flatten lays a text over its base first
//
// A file named N/PATH is the entry PATH in the tar of layer N. The entries keep the order of the text, and Parse adds no parent
// directories. Files with other names become Sections. The first line of a body may name the kind of the file; any other body
// is the content itself:
//
//	elf MACHINE ...            see ParseELF
//	symlink TARGET
//	hardlink PATH              relative to the root
//	dir
//	fifo
//	char MAJOR,MINOR
//	text                       the content follows
//	hex                        hexadecimal digits follow
//	ldcache MACHINE            an ld.so.cache of the lines NAME => PATH that follow, in the order of `ldconfig -p`
//	size SIZE                  zero bytes
//	sparse SIZE                one hole, written as a GNU sparse entry
//	rpmdb                      rpm's database (ndb), of lines NAME [EPOCH:]VERSION-RELEASE
//	copy N/PATH                the content of an earlier file
//
// On that line may follow mode=0755, uid=1, gid=1, cap (a file capability) and, for an ELF file, half (keep the first half)
// or short=N (cut off the last N bytes).
func Parse(data []byte) (*Image, error) {
	archive := txtar.Parse(data)
	im := &Image{
		Platform:    v1.Platform{OS: "linux", Architecture: "amd64"},
		Compression: "gzip",
		Sections:    map[string]string{},
	}
	for _, file := range archive.Files {
		if err := im.addFile(file.Name, string(file.Data)); err != nil {
			return nil, fmt.Errorf("parsing image text: %s: %w", file.Name, err)
		}
	}
	for i, line := range strings.Split(string(archive.Comment), "\n") {
		if err := im.parseLine(line); err != nil {
			return nil, fmt.Errorf("parsing image text: line %d: %w", i+1, err)
		}
	}
	return im, nil
}

// maxLayers is about the number of layers that overlayfs takes.
const maxLayers = 128

func (im *Image) addFile(name, body string) error {
	number, path, ok := cutLayer(name)
	if !ok {
		return im.addSection(name, body)
	}
	n, err := strconv.Atoi(number)
	if err != nil || n >= maxLayers {
		return fmt.Errorf("layer %s is above the limit of %d layers", number, maxLayers)
	}
	if path == "" || strings.HasSuffix(path, "/") {
		return fmt.Errorf("the name ends in a slash")
	}
	im.grow(n)
	file, err := im.parseFile(path, body)
	if err != nil {
		return err
	}
	im.Layers[n].Files = append(im.Layers[n].Files, file)
	return nil
}

// cutLayer splits the name N/PATH of a file in a layer. It reports whether name is one.
func cutLayer(name string) (number, path string, ok bool) {
	number, path, ok = strings.Cut(name, "/")
	return number, path, ok && number != "" && strings.Trim(number, "0123456789") == ""
}

func (im *Image) addSection(name, body string) error {
	if _, ok := im.Sections[name]; ok {
		return fmt.Errorf("the section stands there twice")
	}
	im.Sections[name] = body
	return nil
}

// grow appends layers without files until layer n exists.
func (im *Image) grow(n int) {
	for i := len(im.Layers); i <= n; i++ {
		im.Layers = append(im.Layers, Layer{CreatedBy: fmt.Sprintf("COPY layer %d /", i)})
	}
}

var imageDirectives = map[string]func(im *Image, arg string) error{
	"platform":   (*Image).parsePlatform,
	"env":        (*Image).parseEnv,
	"user":       func(im *Image, arg string) error { im.Config.User = arg; return nil },
	"workdir":    func(im *Image, arg string) error { im.Config.WorkingDir = arg; return nil },
	"entrypoint": func(im *Image, arg string) error { return parseList(&im.Config.Entrypoint, arg) },
	"cmd":        func(im *Image, arg string) error { return parseList(&im.Config.Cmd, arg) },
	"label":      (*Image).parseLabel,
	"volume": func(im *Image, arg string) error {
		if im.Config.Volumes == nil {
			im.Config.Volumes = map[string]struct{}{}
		}
		im.Config.Volumes[arg] = struct{}{}
		return nil
	},
	"healthcheck": func(im *Image, arg string) error {
		im.Config.Healthcheck = &v1.HealthConfig{}
		return parseList(&im.Config.Healthcheck.Test, arg)
	},
	"layer":    (*Image).parseLayer,
	"empty":    func(im *Image, arg string) error { im.Empty = append(im.Empty, arg); return nil },
	"compress": (*Image).parseCompress,
	"scan": func(im *Image, arg string) error {
		im.ScanArgs = append(im.ScanArgs, strings.Fields(arg)...)
		return nil
	},
	"base": func(*Image, string) error { return errors.New("Flatten was not called: it lays a text over its base") },
}

func (im *Image) parseLine(line string) error {
	word, arg := cutWord(line)
	if word == "" || word[0] == '#' {
		return nil
	}
	parse, ok := imageDirectives[word]
	if !ok {
		return fmt.Errorf("unknown directive %q; prose begins with #", word)
	}
	if arg == "" {
		return fmt.Errorf("%s: nothing follows", word)
	}
	if err := parse(im, arg); err != nil {
		return fmt.Errorf("%s: %w", word, err)
	}
	return nil
}

func (im *Image) parsePlatform(arg string) error {
	p, err := v1.ParsePlatform(arg)
	if err != nil {
		return err
	}
	im.Platform = *p
	return nil
}

func (im *Image) parseEnv(arg string) error {
	if name, _, ok := strings.Cut(arg, "="); !ok || name == "" {
		return fmt.Errorf("%q: want NAME=VALUE", arg)
	}
	im.Config.Env = append(im.Config.Env, arg)
	return nil
}

func parseList(to *[]string, arg string) error {
	if err := json.Unmarshal([]byte(arg), to); err != nil {
		return fmt.Errorf("%s is not a JSON list of strings: %w", arg, err)
	}
	return nil
}

func (im *Image) parseLabel(arg string) error {
	key, value, ok := strings.Cut(arg, "=")
	if !ok || key == "" {
		return fmt.Errorf("%q: want KEY=VALUE", arg)
	}
	if im.Config.Labels == nil {
		im.Config.Labels = map[string]string{}
	}
	im.Config.Labels[key] = value
	return nil
}

func (im *Image) parseLayer(arg string) error {
	number, createdBy := cutWord(arg)
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= maxLayers {
		return fmt.Errorf("%q is not the number of a layer", number)
	}
	im.grow(n)
	im.Layers[n].CreatedBy = createdBy
	return nil
}

func (im *Image) parseCompress(arg string) error {
	if !slices.Contains([]string{"gzip", "zstd", "none"}, arg) {
		return fmt.Errorf("%q: want gzip, zstd or none", arg)
	}
	im.Compression = arg
	return nil
}
