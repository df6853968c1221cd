package source

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// RegistryWords returns the words in which a registry says why it refuses something:
// each of its messages in brackets behind a blank, escaped and bounded. It returns ""
// where the answer has none. Only these words name a quota that is used up or a tag
// that must not change: the status is that of a missing login.
func RegistryWords(te *transport.Error) string {
	var b strings.Builder
	for _, text := range messages(te) {
		fmt.Fprintf(&b, " (%s)", plain.Name(strings.Join(strings.Fields(text), " ")))
	}
	return b.String()
}

const (
	maxWords = 3   // messages of one answer
	maxLine  = 300 // bytes of an answer that is a line of text
)

// messages returns the texts of an answer: those of its errors by the specification
// (distribution-spec, "Error Codes"), else those that other servers on the way write as
// JSON of their own or as a line of text. A page for browsers is ignored.
func messages(te *transport.Error) []string {
	var list []string
	add := func(text string) {
		if len(list) < maxWords && strings.TrimSpace(text) != "" {
			list = append(list, text)
		}
	}
	for _, d := range te.Errors {
		add(strings.TrimSpace(d.Message + detail(d.Detail)))
	}
	if len(te.Errors) > 0 || te.StatusCode < 400 {
		return list
	}
	body := strings.TrimSpace(rawBody(te))
	var doc map[string]any
	if json.Unmarshal([]byte(body), &doc) == nil {
		for _, key := range []string{"message", "error_description", "error", "details"} {
			if text, ok := doc[key].(string); ok && len(list) == 0 {
				add(text)
			}
		}
	} else if !strings.HasPrefix(body, "<") && len(body) <= maxLine {
		add(body)
	}
	return list
}

// detail returns the text of an error's detail, in the form that Artifactory gives it:
// the specification defines none.
func detail(v any) string {
	m, _ := v.(map[string]any)
	if text, ok := m["description"].(string); ok && text != "" {
		return ": " + text
	}
	return ""
}

// rawBody returns the body of an answer that is no error of a registry.
// go-containerregistry has it in its own text only.
func rawBody(te *transport.Error) string {
	bare := *te
	bare.Request = nil
	_, body, _ := strings.Cut(bare.Error(), fmt.Sprintf("unexpected status code %d", te.StatusCode))
	_, body, _ = strings.Cut(body, ": ")
	return body
}
