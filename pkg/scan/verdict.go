package scan

import (
	"encoding/json"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// verdict is the place in the cache for the document of one image, as one program judges
// it by one set of packs and options. Nothing is kept under an empty key. A document that was
// made with indexes of somebody else has a place of its own.
type verdict struct {
	cache    *layers.Cache
	key      string
	borrowed string // the key of a document made with such indexes; empty if no index is believed
	packs    string // their ID
}

// verdictOf returns the verdict of an image. Its key has everything that the document
// depends on, except the reference: an option that a scan comes to depend on belongs
// into it.
func verdictOf(img *layers.Image, o Options) (verdict, error) {
	if o.Layers.Cache == nil || img.ID() == "" {
		return verdict{}, nil
	}
	set, err := o.rules().id()
	if err != nil {
		return verdict{}, err
	}
	program, err := program()
	if err != nil {
		return verdict{}, nil // a program without an identity keeps nothing
	}
	key := struct {
		Schema, Program, Packs, Image, Attested, Keep, Policy string
		NoPlan, Overview                                      bool
		Platform                                              *v1.Platform
		Layers                                                []source.Layer
		Machines                                              []targets.Machine
		Dockerfiles                                           []Dockerfile
		Origin                                                string // of the indexes
	}{report.Schema, program, set, img.ID(), img.Attested(), o.reading().KeepID, o.Policy.ID(img.Ref), o.NoPlan, o.Overview, o.Layers.Platform, img.Layers, o.Machines, o.Dockerfiles, ""}
	own, err := json.Marshal(key)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{cache: o.Layers.Cache, key: string(own), packs: set}
	if x := o.Layers.Indexes; x != nil {
		key.Origin = x.Origin(img.Image)
	}
	if key.Origin != "" {
		borrowed, err := json.Marshal(key)
		if err != nil {
			return verdict{}, err
		}
		v.borrowed = string(borrowed)
	}
	return v, nil
}

// load returns the kept document, or nil. x are the indexes of somebody else that may be used.
func (v verdict) load(img *layers.Image, x *layers.Indexes) *report.Document {
	if v.key == "" || x != nil && x.Compared != nil {
		return nil
	}
	doc := v.kept(v.key)
	if doc == nil && v.borrowed != "" {
		if doc = v.kept(v.borrowed); doc != nil && x.Used != nil {
			x.Used(img.Image, -1)
		}
	}
	if doc != nil {
		doc.Image.Ref = img.Ref // it may have had another name
	}
	return doc
}

// kept returns the document under a key, or nil.
func (v verdict) kept(key string) *report.Document {
	b, ok := v.cache.Document(key)
	if !ok {
		return nil
	}
	return decodeDocument(b)
}

// store keeps a document, unless another image took the image's name while it was read,
// or the packs changed.
func (v verdict) store(img *layers.Image, doc *report.Document, set *packs.Packs) error {
	key := v.key
	if img.Borrowed() {
		key = v.borrowed
	}
	if key == "" || img.ID() == "" || set.ID != v.packs {
		return nil
	}
	b, err := encodeDocument(doc)
	if err != nil {
		return err
	}
	return v.cache.PutDocument(key, b)
}

// keptDocument is the stored form of a document, with what its own JSON leaves out.
type keptDocument struct {
	Document *report.Document
	Rules    []*packs.Rule
}

func encodeDocument(doc *report.Document) ([]byte, error) {
	return json.Marshal(keptDocument{doc, doc.Rules})
}

// decodeDocument returns nil for anything that encodeDocument has not written.
func decodeDocument(b []byte) *report.Document {
	var kept keptDocument
	if json.Unmarshal(b, &kept) != nil || kept.Document == nil || kept.Document.Schema != report.Schema {
		return nil
	}
	kept.Document.Rules = kept.Rules
	return kept.Document
}
