// Package page writes pages of reports for a browser to open: of text images, of forty of them,
// and of one whose every text is hostile. test/page/run.sh opens them in Chromium.
//
//	page DIR
package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// texts are the images: a missing library, a healthy framework, a program of Node.js, libraries
// that several files miss, a library that a layer deletes, one that nothing examines, code for some
// GPUs.
var texts = []string{"ort-no-cudnn", "torch-healthy", "node-llama-no-cuda", "report-opencv-no-libgl", "torch-cudnn9-no-engines", "jax-no-cudnn", "nothing-examined", "gpu-torch-v100"}

// Main writes the pages.
func Main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: page DIR")
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir string) error {
	server, err := imagetest.Registry()
	if err != nil {
		return err
	}
	defer server.Close()
	var all []report.Scanned
	for _, name := range texts {
		doc, err := scanned(ctx, server, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, report.Scanned{Ref: doc.Image.Ref, Report: doc})
		if err := write(dir, name, all[len(all)-1:]); err != nil {
			return err
		}
	}
	evil, err := hostile(all[0].Report)
	if err != nil {
		return err
	}
	if err := write(dir, "hostile", []report.Scanned{{Ref: evil.Image.Ref, Report: evil}}); err != nil {
		return err
	}
	var forty []report.Scanned
	for i := range 39 {
		forty = append(forty, all[i%len(all)])
	}
	return write(dir, "forty", append(forty, report.Scanned{Ref: "example.com/gone:1", Error: "there is no such image"}))
}

func write(dir, name string, list []report.Scanned) error {
	var b bytes.Buffer
	if err := report.SetHTML(&b, report.NewSet("test", list), report.Options{}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".html"), b.Bytes(), 0o644)
}

func scanned(ctx context.Context, server *imagetest.Server, name string) (*report.Document, error) {
	text, err := images.Text(name + ".txtar")
	if err != nil {
		return nil, err
	}
	parsed, err := imagetest.Parse(text)
	if err != nil {
		return nil, err
	}
	img, err := parsed.V1()
	if err != nil {
		return nil, err
	}
	ref, err := server.Push("page/"+name+":1", img)
	if err != nil {
		return nil, err
	}
	return scan.Image(ctx, ref, scan.Options{Overview: true})
}

// attack is a text that would run a script or load something if the page let it.
const attack = `</pre></title></style><script>window.attacked=1</script><img src="//127.0.0.1:1/x" onerror="window.attacked=1">' onload='window.attacked=1' `

// hostile returns a document with the attack before every text.
func hostile(d *report.Document) (*report.Document, error) {
	var b bytes.Buffer
	if err := report.JSON(&b, d, report.Options{}); err != nil {
		return nil, err
	}
	var v any
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		return nil, err
	}
	text, err := json.Marshal(attacked(v, ""))
	if err != nil {
		return nil, err
	}
	return report.Read(bytes.NewReader(text))
}

func attacked(v any, field string) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = attacked(v[k], k)
		}
	case []any:
		for i := range v {
			v[i] = attacked(v[i], field)
		}
	case string:
		switch field {
		case "schema", "rule", "severity", "kind", "name", "verdict": // readers accept no other form of them
			return v
		}
		return attack + v
	}
	return v
}
