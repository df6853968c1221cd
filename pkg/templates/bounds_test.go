package templates

import (
	"bytes"
	"strings"
	"testing"
)

// TestBounded: no template writes, counts or keeps without end.
func TestBounded(t *testing.T) {
	const doubled = `{{ $x := "0123456789abcdef" }}{{ range until 60 }}`
	for text, want := range map[string]error{
		`{{ range 9223372036854775807 }}{{ end }}`:               errWork,
		`{{ range 9223372036854775807 }}{{ break }}{{ end }}`:    nil,
		`{{ range 9223372036854775807 }}{{ continue }}{{ end }}`: errWork,
		`{{ define "a" }}{{ if lt . 60 }}{{ template "a" (add . 1 | int) }}{{ template "a" (add . 1 | int) }}{{ end }}{{ end }}{{ template "a" 0 }}`: errWork,
		`{{ $x := repeat 1048576 "0123456789" }}{{ range until 1000 }}{{ $x }}{{ end }}`:                                                             errOutput,
		`{{ range until 1000000000 }}{{ end }}`:                                                             errValue,
		`{{ untilStep -9223372036854775807 9223372036854775807 1 }}`:                                        errValue,
		`{{ untilStep 0 1000000000 0 }}`:                                                                    errValue,
		`{{ seq 1000000000 }}`:                                                                              errValue,
		`{{ seq -1000000000 1 1 }}`:                                                                         errValue,
		`{{ repeat 1000000000 "x" }}`:                                                                       errValue,
		`{{ repeat 9223372036854775807 "xxxx" }}`:                                                           errValue,
		`{{ indent 1000000000 "x" }}`:                                                                       errValue,
		`{{ nindent 100000 (repeat 1000 "\n") }}`:                                                           errValue,
		`{{ replace "" (repeat 100000 "x") (repeat 1000 "y") }}`:                                            errValue,
		`{{ join (repeat 100000 "x") (until 1000) }}`:                                                       errValue,
		`{{ regexReplaceAll "(.*)" (repeat 1000000 "x") (repeat 1000 "${1}") }}`:                            errValue,
		`{{ printf (repeat 1000 "%[1]999999d") 1 }}`:                                                        errValue,
		`{{ printf (repeat 1000 "%[1]s") (repeat 100000 "x") }}`:                                            errValue,
		doubled + `{{ $x = print $x $x }}{{ end }}`:                                                         errValue,
		doubled + `{{ $x = cat $x $x }}{{ end }}`:                                                           errValue,
		doubled + `{{ $x = html $x "<<<<" $x }}{{ end }}`:                                                   errValue,
		doubled + `{{ $x = list $x $x }}{{ end }}{{ $x }}`:                                                  errValue,
		doubled + `{{ $x = dict "a" $x "b" $x }}{{ end }}{{ toJson $x }}`:                                   errValue,
		`{{ $d := dict }}{{ $d = set $d "a" $d }}{{ $d }}`:                                                  errValue,
		`{{ $x := repeat 1000000 "x" }}{{ range until 100000 }}{{ $y := upper $x }}{{ end }}`:               errWork,
		`{{ printf "%-20s|%5.1f|%d" "a" 1.5 3 }}{{ repeat 3 "-" }}{{ join ", " (until 3) }}{{ seq 1 2 9 }}`: nil,
	} {
		p, err := Parse("x", text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		err = p.Write(new(bytes.Buffer), set())
		if want == nil && err != nil || want != nil && (err == nil || !strings.HasSuffix(err.Error(), want.Error()) || !strings.HasPrefix(err.Error(), "template: x:")) {
			t.Errorf("%s: %.200v, want %v", text, err, want)
		}
	}
}

// TestEndlessRecursion: templates that call one another end with the bound of Go.
func TestEndlessRecursion(t *testing.T) {
	p, err := Parse("x", `{{ define "a" }}{{ template "b" }}{{ end }}{{ define "b" }}{{ template "a" }}{{ end }}{{ template "a" }}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(new(bytes.Buffer), set()); err == nil || !strings.Contains(err.Error(), "exceeded maximum template depth") {
		t.Errorf("%v", err)
	}
}

// TestBoundedTwice: a template can be written again after a run.
func TestBoundedTwice(t *testing.T) {
	p, err := Parse("x", `{{ range until 3 }}{{ print . }}{{ end }}`)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var b bytes.Buffer
		if err := p.Write(&b, set()); err != nil || b.String() != "012" {
			t.Errorf("%q, %v", b.String(), err)
		}
	}
}
