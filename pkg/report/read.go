package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// maxReport limits a saved report, in bytes. The largest seen, of an image with 40,000
// ELF files, has 30 MB.
const maxReport = 256 << 20

// maxElements limits the elements of a report by its commas. Real reports have one in
// fifty bytes, and each may become a finding of 344 bytes.
const maxElements = 1 << 20

// maxSetElements limits those of the reports of several images: as many as real reports of
// maxReport bytes have.
const maxSetElements = 5 << 20

// Read reads what JSON wrote. It ignores unknown fields, as the schema asks of readers,
// and counts the findings anew.
func Read(r io.Reader) (*Document, error) {
	b, schema, err := readForm(r, maxElements)
	if err != nil {
		return nil, err
	}
	if schema == SetSchema {
		return nil, errors.New("it has the reports of several images: one is needed here")
	}
	return readDocument(b)
}

// ReadAny reads what JSON or SetJSON wrote: it returns a document or a set.
func ReadAny(r io.Reader) (*Document, *Set, error) {
	b, schema, err := readForm(r, maxSetElements)
	if err != nil {
		return nil, nil, err
	}
	if schema == SetSchema {
		set, err := readSet(b)
		return nil, set, err
	}
	d, err := readDocument(b)
	return d, nil, err
}

// readForm reads a report within the limits, and its schema.
func readForm(r io.Reader, elements int) (b []byte, schema string, err error) {
	head := bufio.NewReader(r)
	limit := int64(maxReport + 1)
	if b, err := head.Peek(1); err == nil && b[0] == 0 {
		limit = 1 // a hole of a sparse file: not to be read whole for the error
	}
	b, err = io.ReadAll(io.LimitReader(head, limit))
	if err != nil {
		return nil, "", err
	}
	if len(b) > maxReport {
		return nil, "", fmt.Errorf("the report is larger than %d MiB", maxReport>>20)
	}
	if bytes.Count(b, []byte(",")) > elements {
		return nil, "", fmt.Errorf("not a JSON report of imgcheck: it has more than %d elements", elements)
	}
	var form struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(b, &form); err != nil {
		return nil, "", fmt.Errorf("not a JSON report of imgcheck: %w", err)
	}
	return b, form.Schema, nil
}

// readDocument reads the report of one image.
func readDocument(b []byte) (*Document, error) {
	if bytes.Count(b, []byte(",")) > maxElements {
		return nil, fmt.Errorf("not a JSON report of imgcheck: it has more than %d elements", maxElements)
	}
	var d Document
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("not a JSON report of imgcheck: %w", err)
	}
	return checkRead(&d)
}

// readSet reads a set, and finds the shared causes anew.
func readSet(b []byte) (*Set, error) {
	var s Set
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("not a JSON report of imgcheck: %w", err)
	}
	for i := range s.Images {
		im := &s.Images[i]
		if im.Report == nil {
			if im.Error == "" {
				return nil, fmt.Errorf("image %d of the report: needs a report or an error", i+1)
			}
			continue
		}
		d, err := checkRead(im.Report)
		if err != nil {
			return nil, fmt.Errorf("image %d of the report: %w", i+1, err)
		}
		im.Report = d
	}
	if s.Shard != nil {
		if err := s.Shard.check(); err != nil {
			return nil, fmt.Errorf("not a JSON report of imgcheck: %w", err)
		}
	}
	set := NewSet(s.Imgcheck, s.Images)
	set.Shard = s.Shard
	return set, nil
}

// checkRead checks a document that was read, and counts its findings anew.
func checkRead(d *Document) (*Document, error) {
	if d.Schema != Schema {
		if d.Schema == "" {
			return nil, errors.New(`not a JSON report of imgcheck: make one with "imgcheck scan --format json"`)
		}
		return nil, fmt.Errorf("the report has the schema %q; this imgcheck reads %s", d.Schema, Schema)
	}
	all := slices.Concat(d.Findings, d.Known)
	for _, f := range d.Ignored {
		all = append(all, f.Finding)
	}
	for i, f := range all {
		if !ruleID(f.Rule) || f.Message == "" || !slices.Contains(packs.Severities, f.Severity) {
			return nil, fmt.Errorf("finding %d of the report: needs a rule, a message and a severity (error, warning or note)", i+1)
		}
	}
	if d.Image.Layers == nil {
		d.Image.Layers = []Layer{}
	}
	return d.With(d.Findings), nil
}

// ruleID reports whether s has the schema's form of a rule ID.
func ruleID(s string) bool {
	for i, r := range s {
		if !(r >= 'a' && r <= 'z' || i > 0 && (r >= '0' && r <= '9' || r == '-')) {
			return false
		}
	}
	return s != ""
}
