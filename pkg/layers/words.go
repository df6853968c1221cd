package layers

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// RegistryWords are the words in which a registry says itself why it refuses
// something, each behind a blank and in brackets, cleaned and bounded; empty when it
// has none. A quota that is used up and a tag that never changes are told nowhere
// else: the status is that of a missing login.
func RegistryWords(te *transport.Error) string { return words(te) }

const (
	maxWords = 3   // as many messages of one answer
	maxLine  = 300 // bytes of an answer that is a line of text
)

func words(te *transport.Error) string {
	var b strings.Builder
	for _, text := range messages(te) {
		fmt.Fprintf(&b, " (%s)", printable(strings.Join(strings.Fields(text), " ")))
	}
	return b.String()
}

// messages are the texts of an answer: those of the errors that the specification
// has (distribution-spec, "Error Codes"), else what other servers on the way say in
// their own JSON or in a line of text. A page is for browsers.
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

// detail is what an error's detail adds in words, as Artifactory has it: the
// specification leaves open what a detail is.
func detail(v any) string {
	m, _ := v.(map[string]any)
	if text, ok := m["description"].(string); ok && text != "" {
		return ": " + text
	}
	return ""
}

// rawBody is the body of an answer that is no error of a registry.
// go-containerregistry has it in its own text only.
func rawBody(te *transport.Error) string {
	bare := *te
	bare.Request = nil
	_, body, _ := strings.Cut(bare.Error(), fmt.Sprintf("unexpected status code %d", te.StatusCode))
	_, body, _ = strings.Cut(body, ": ")
	return body
}
