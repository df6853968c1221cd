package dockerline

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// chain returns layers of which only the digests are known, by one letter each.
func chain(letters string) (list []source.Layer) {
	for _, c := range letters {
		list = append(list, source.Layer{Digest: "sha256:" + string(c)})
	}
	return list
}

// made writes a statement: steps are "LAYERS LINE-LINE …" with the chain of a step and its
// places.
func made(version, text string, more map[string]any, steps ...string) []byte {
	layers, locations := map[string]any{}, map[string]any{}
	for i, s := range steps {
		words := strings.Fields(s)
		var ds []map[string]string
		for _, c := range words[0] {
			ds = append(ds, map[string]string{"digest": "sha256:" + string(c)})
		}
		layers[fmt.Sprintf("step%d:0", i)] = [][]map[string]string{ds}
		var places []any
		for _, w := range words[1:] {
			var start, end int
			fmt.Sscanf(w, "%d-%d", &start, &end)
			places = append(places, map[string]any{"ranges": []any{map[string]any{"start": map[string]int{"line": start}, "end": map[string]int{"line": end}}}})
		}
		locations[fmt.Sprintf("step%d", i)] = map[string]any{"locations": places}
	}
	meta := map[string]any{"layers": layers, "source": map[string]any{"locations": locations, "infos": []any{map[string]any{"filename": "Dockerfile", "language": "Dockerfile", "data": []byte(text)}}}}
	for k, v := range more {
		meta[k] = v
	}
	predicate := map[string]any{"runDetails": map[string]any{"metadata": map[string]any{"buildkit_metadata": meta}}}
	if version == "v0.2" {
		predicate = map[string]any{"metadata": map[string]any{"https://mobyproject.org/buildkit@v1#metadata": meta}}
	}
	if args, ok := more["args"]; ok {
		predicate["buildDefinition"] = map[string]any{"externalParameters": map[string]any{"request": map[string]any{"args": args}}}
	}
	raw, err := json.Marshal(map[string]any{"predicateType": "https://slsa.dev/provenance/" + version, "predicate": predicate})
	if err != nil {
		panic(err)
	}
	return raw
}

// linesOf returns the lines of a statement.
func linesOf(raw []byte, layers []source.Layer) ([]*Line, error) {
	p, err := FromProvenance(raw, layers)
	if err != nil {
		return nil, err
	}
	return p.Lines, nil
}

// brief shows lines as "LINE-LINE STAGE", with "base" and "?".
func brief(lines []*Line) string {
	var all []string
	for _, l := range lines {
		if l == nil {
			all = append(all, "?")
			continue
		}
		s := fmt.Sprintf("%d-%d", l.Line, l.EndLine)
		if l.Stage != "" {
			s += " " + l.Stage
		}
		if l.Base {
			s += " base"
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}

const twoStages = "FROM a AS build\nRUN one \\\n  two\nFROM a\nRUN one \\\n  two\nCOPY --from=build x y\n"

func TestFromProvenance(t *testing.T) {
	for _, tt := range []struct {
		name, layers, want string
		raw                []byte
	}{
		{"v1", "abcd", "1-1 build base, 1-1 build base, 2-3 build, ?", made("v1", twoStages, nil, "ab 1-1", "abc 2-3")},
		{"v0.2", "abc", "1-1 build base, 1-1 build base, 2-3 build", made("v0.2", twoStages, nil, "ab 1-1", "abc 2-3")},
		{"steps that two stages share", "abcd", "4-4 base, 4-4 base, 5-6, 7-7", made("v1", twoStages, nil, "ab 1-1 4-4", "abc 2-3 5-6", "abcd 7-7")},
		{"a target", "abc", "1-1 build base, 1-1 build base, 2-3 build", made("v1", twoStages, map[string]any{"args": map[string]string{"target": "build"}}, "ab 1-1 4-4", "abc 2-3 5-6")},
		{"two instructions of one stage", "ab", "?, ?", made("v1", "FROM a\nRUN x\nRUN x\n", nil, "ab 2-2 3-3")},
		{"a layer alone", "abc", "?, ?, 2-2", made("v1", "FROM a\nCOPY --link x y\n", nil, "c 2-2")},
		{"an empty layer twice", "aee", "?, 2-2, 3-3", made("v1", "FROM a\nRUN x\nRUN y\n", nil, "ae 2-2", "aee 3-3", "e 1-1")},
		{"layers compressed again", "xyc", "1-1 base, 2-2, 3-3", made("v1", "FROM a\nRUN x\nRUN y\n", nil, "a 1-1", "ab 2-2", "abc 3-3")},
		{"two stacks with one last layer", "xyc", "?, ?, ?", made("v1", "FROM a\nRUN x\nCOPY y z\nCOPY y z\n", nil, "abc 3-3", "dec 4-4", "ab 2-2")},
		{"no such line", "ab", "?, ?", made("v1", "FROM a\nRUN x\n", nil, "a 0-0", "ab 2-9")},
		{"backwards", "a", "?", made("v1", "FROM a\nRUN x\n", nil, "a 2-1")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, err := linesOf(tt.raw, chain(tt.layers))
			if err != nil || brief(lines) != tt.want {
				t.Errorf("%v, %v; want %v", brief(lines), err, tt.want)
			}
		})
	}
}

// TestRecorded reads statements that BuildKit 0.33 has written.
func TestRecorded(t *testing.T) {
	for file, want := range map[string][]string{
		"stages.json": {"FROM", "FROM", "COPY --from=build /mark-2 /mark-5", "COPY --from=0 /mark-3 /mark-6"},
		"v0.2.json":   {"FROM", "FROM", "RUN mark 2", "RUN mark 3"},
	} {
		raw, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := linesOf(raw, imageOf(t, raw, len(want)))
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range lines {
			if l == nil || l.Base != (want[i] == "FROM") || !l.Base && l.Instruction != want[i] || l.File != "Dockerfile" {
				t.Errorf("%s: layer %d is of %+v, not of %s", file, i+1, l, want[i])
			}
		}
	}
}

// TestFollow follows files through the stages of builds that BuildKit 0.33 has made.
func TestFollow(t *testing.T) {
	for _, tt := range []struct {
		file, path string
		layers     int
		layer      int
		want       string // STAGE PATH: LINES, …
	}{
		{"from-a-stage-on-scratch", "/mark-7", 5, 2, "out /lib/x: 4; a /mark-2: 2 1"},
		{"from-a-stage-on-scratch", "/mark-8/x", 5, 3, "out /lib/x: 4; a /mark-2: 2 1"},
		{"from-a-stage-on-scratch", "/mark-8/z", 5, 3, "out /lib/z: "},
		{"from-a-stage-on-scratch", "/mark-9", 5, 4, "out /lib/y: 5"},
		{"from-a-stage-on-scratch", "/mark-10", 5, 4, ""},
		{"from-a-stage-on-scratch", "/mark-7", 5, 0, ""},
		{"from-a-stage-on-scratch", "/mark-7", 5, 5, ""},
		{"from-a-stage-on-scratch", "mark-7", 5, 2, ""},
		{"from-a-stage-by-links", "/mark-7", 4, 2, "b /x: 5; a /mark-2: 2 1"},
		{"from-a-stage-by-links", "/mark-8", 4, 3, "b /y: 4"},
		{"from-a-whole-stage", "/mark-6/mark-2", 4, 2, "a /mark-2: 4 2 1"},
		{"from-a-whole-stage", "/mark-7/mark-4", 4, 3, "a : 4 2 1"},
		{"from-a-document", "/mark-9/z", 4, 3, "a /d/z: 2"},
	} {
		raw, err := os.ReadFile("testdata/" + tt.file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		p, err := FromProvenance(raw, imageOf(t, raw, tt.layers))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range p.Follow(tt.layer, tt.path) {
			text := s.Stage + " " + s.Path + ":"
			for _, l := range s.Lines {
				text += fmt.Sprintf(" %d", l.Line)
			}
			if len(s.Lines) == 0 {
				text += " "
			}
			got = append(got, text)
		}
		if got := strings.Join(got, "; "); got != tt.want {
			t.Errorf("%s, %s of layer %d: %q, want %q", tt.file, tt.path, tt.layer, got, tt.want)
		}
	}
	p, err := FromProvenance(made("v1", twoStages, map[string]any{}, "ab 1-1 4-4", "abc 7-7"), chain("abc"))
	if err != nil || p.Follow(2, "/y") != nil {
		t.Error("a file is followed without steps")
	}
}

// imageOf returns the chain of n layers that a statement has.
func imageOf(t *testing.T, raw []byte, n int) (list []source.Layer) {
	t.Helper()
	var s statement
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	for _, m := range []metadata{s.Predicate.Metadata.BuildKit, s.Predicate.RunDetails.Metadata.BuildKit} {
		for _, chains := range m.Layers {
			for _, c := range chains {
				if len(c) == n {
					for _, d := range c {
						list = append(list, source.Layer{Digest: d.Digest})
					}
				}
			}
		}
	}
	if len(list) != n {
		t.Fatalf("%d layers", len(list))
	}
	return list
}

func TestFromProvenanceErrors(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{"", "its provenance cannot be read: unexpected end of JSON input"},
		{`{"predicateType":"https://slsa.dev/provenance/v1"}`, errMin.Error()},
		{`{"predicateType":"https://example.org/x"}`, errOther.Error()},
		{string(made("v1", "FROM a\n", nil, "z 1-1")), errUnmatched.Error()},
		{strings.Repeat(" ", maxStatement+1), "its provenance is larger than 8 MiB"},
	} {
		if lines, err := linesOf([]byte(tt.raw), chain("ab")); lines != nil || err == nil || err.Error() != tt.want {
			t.Errorf("%v, %v; want %s", brief(lines), err, tt.want)
		}
	}
	if _, err := linesOf(made("v1", "FROM a\n", nil, "z 1-1"), chain("ab")); !errors.Is(err, errUnmatched) {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct{ dir, name, want string }{
		{"", "Dockerfile", "Dockerfile"},
		{"docker/gpu", "Dockerfile.cuda", "docker/gpu/Dockerfile.cuda"},
		{"./", "docker/../x", "x"},
		{"../other", "x", "x"},
		{"/abs", "/root/x", "x"},
		{`a\b`, "x", "a/b/x"},
		{"", "..", "Dockerfile"},
		{"", "", "Dockerfile"},
		{strings.Repeat("d/", maxName), "x", "x"},
	} {
		if got := inRepository(tt.dir, tt.name); got != tt.want {
			t.Errorf("%q, %q: %q, not %q", tt.dir, tt.name, got, tt.want)
		}
	}
	lines, err := linesOf(made("v1", "FROM a\n", map[string]any{"vcs": map[string]string{"localdir:dockerfile": "images/app"}}, "a 1-1"), chain("a"))
	want := []*Line{{File: "images/app/Dockerfile", Line: 1, EndLine: 1, EndColumn: 7, Instruction: "FROM a", Base: true}}
	if diff := cmp.Diff(want, lines); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if got := joined([]string{"RUN pip install \\", "  --index-url https://me:secret@host/simple x"}); strings.Contains(got, "secret") || !strings.HasPrefix(got, "RUN pip install --index-url https://") {
		t.Errorf("%q", got)
	}
	if got := directory(nil, "https://github.com/org/app.git#main:images"); got != "images" {
		t.Error(got)
	}
}

// FuzzFromProvenance reads any statement: one line for each layer at most, inside its file.
func FuzzFromProvenance(f *testing.F) {
	f.Add(made("v1", twoStages, nil, "ab 1-1 4-4", "abc 2-3 5-6"), "abc")
	f.Add(made("v0.2", twoStages, nil, "ab 1-1 4-4", "abc 9-3 5-6"), "xbc")
	for _, file := range []string{"from-a-stage-on-scratch", "from-a-stage-by-links"} {
		raw, err := os.ReadFile("testdata/" + file + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, "abcde")
	}
	f.Add(made("v1", "# escape=`\nFROM a\nRUN <<E\nx\nE\n", nil, "a 2-2", "aa 3-5"), "aa")
	f.Fuzz(func(t *testing.T, raw []byte, letters string) {
		if len(letters) > 100 {
			return
		}
		lines, err := linesOf(raw, chain(letters))
		if err != nil {
			if lines != nil {
				t.Error("lines beside an error")
			}
			return
		}
		again, _ := linesOf(raw, chain(letters))
		if diff := cmp.Diff(lines, again); diff != "" || len(lines) != len(chain(letters)) {
			t.Errorf("%d lines of %d layers; (-first +second):\n%s", len(lines), len(chain(letters)), diff)
		}
		var s statement
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		most := 0
		for _, m := range []metadata{s.Predicate.Metadata.BuildKit, s.Predicate.RunDetails.Metadata.BuildKit} {
			for _, info := range m.Source.Infos {
				most = max(most, strings.Count(string(info.Data), "\n")+1)
			}
		}
		p, err := FromProvenance(raw, chain(letters))
		for i := range lines {
			if err != nil || len(p.Follow(i, "/usr/lib/libx.so")) > maxSources {
				t.Errorf("layer %d: %v", i, err)
			}
		}
		for _, l := range lines {
			if l != nil && (l.Line < 1 || l.EndLine < l.Line || l.EndLine > most || l.File == "" || len(l.File) > maxName || len([]rune(l.Instruction)) > maxInstruction) {
				t.Errorf("%+v in a file of %d lines", l, most)
			}
		}
	})
}
