package main

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// verdict is a document that is kept, or will be: that of one image by one
// build of imgcheck and its packs. Without a key there is none.
type verdict struct {
	cache *layers.Cache
	key   string
}

// verdictOf names the document of an image. Its key holds everything that the
// document follows from but the reference: whatever else a scan comes to depend
// on is given as one of others. The packs are not parsed for it, which would be
// most of what a rescan costs.
func verdictOf(img *layers.Image, o layers.Options, packs []fs.FS, others ...string) (verdict, error) {
	if o.Cache == nil || img.ID() == "" {
		return verdict{}, nil
	}
	rules, err := lint.PacksID(packs...)
	if err != nil {
		return verdict{}, err
	}
	build, err := build()
	if err != nil {
		return verdict{}, nil // who does not know itself keeps nothing
	}
	key, err := json.Marshal(struct {
		Schema, Build, Packs, Image, Keep string
		Platform                          *v1.Platform
		Layers                            []layers.LayerInfo
		Others                            []string
	}{report.Schema, build, rules, img.ID(), o.KeepID, o.Platform, img.Layers, others})
	return verdict{o.Cache, string(key)}, err
}

// load is the kept document, nil when there is none.
func (v verdict) load(img *layers.Image) *report.Document {
	if v.key == "" {
		return nil
	}
	b, ok := v.cache.Document(v.key)
	if !ok {
		return nil
	}
	doc := decodeDocument(b)
	if doc != nil {
		doc.Image.Ref = img.Ref // it may have another name than the last time
	}
	return doc
}

// store keeps a document of the image, unless another one has taken its name
// while it was read.
func (v verdict) store(img *layers.Image, doc *report.Document) error {
	if v.key == "" || img.ID() == "" {
		return nil
	}
	b, err := encodeDocument(doc)
	if err != nil {
		return err
	}
	return v.cache.PutDocument(v.key, b)
}

// keptDocument is the stored form of a document, with what its own JSON leaves out.
type keptDocument struct {
	Document *report.Document
	Rules    []*lint.Rule
}

func encodeDocument(doc *report.Document) ([]byte, error) {
	return json.Marshal(keptDocument{doc, doc.Rules})
}

// decodeDocument is nil for anything but what encodeDocument has written.
func decodeDocument(b []byte) *report.Document {
	var kept keptDocument
	if json.Unmarshal(b, &kept) != nil || kept.Document == nil || kept.Document.Schema != report.Schema {
		return nil
	}
	kept.Document.Rules = kept.Rules
	return kept.Document
}

// build names the code that runs: the commit or the module's checksum that the
// go command has recorded, else the linker's build ID, which follows from all that
// was linked, else the digest of the program file.
var build = sync.OnceValues(func() (string, error) {
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

// linked is the build ID in a program file, where there is one.
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

// recorded is the identity that a build has by itself; empty for one of files
// that were changed since the commit, and where nothing was recorded.
func recorded(info *debug.BuildInfo) string {
	if info == nil {
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
