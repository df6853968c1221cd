package house

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// licences finds, for each SPDX identifier, a text that stands in such a licence, where single
// blanks are between words: https://spdx.org/licenses/
var licences = map[string]*regexp.Regexp{
	"Apache-2.0":   regexp.MustCompile(`Apache License,? Version 2\.0`),
	"BSD-2-Clause": regexp.MustCompile(`Redistribution and use in source and binary forms`),
	"BSD-3-Clause": regexp.MustCompile(`Redistribution and use in source and binary forms.* to endorse or promote products`),
	"CC0-1.0":      regexp.MustCompile(`CC0 1\.0 Universal`),
	"MIT":          regexp.MustCompile(`Permission is hereby granted, free of charge, to any person obtaining a copy`),
	"MPL-2.0":      regexp.MustCompile(`Mozilla Public License,? [Vv]ersion 2\.0`),
	"Unlicense":    regexp.MustCompile(`This is free and unencumbered software released into the public domain`),
}

// moduleOf is a module as `go list` describes it.
type moduleOf struct {
	Path, Dir      string
	Main, Indirect bool
}

// licencesIn returns the identifiers of the licences whose texts the files in dir have that
// are named as a licence, sorted.
func licencesIn(t *testing.T, dir string) []string {
	t.Helper()
	found := map[string]bool{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") && !strings.HasPrefix(name, "UNLICENSE") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(string(raw)), " ")
		for id, licence := range licences {
			if licence.MatchString(text) {
				found[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// goList returns what `go list` with args describes.
func goList[T any](t *testing.T, args ...string) []T {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var one T
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
}

// TestDependencies checks that docs/dependencies.md has the modules that are imported
// directly, with the licences that they have, and that each module that is linked into the
// program or its tests has a licence that is known.
func TestDependencies(t *testing.T) {
	text, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| ([^|]+) \\|$").FindAllStringSubmatch(string(text), -1) {
		if rows[m[1]] != "" {
			t.Errorf("%s has two rows", m[1])
		}
		rows[m[1]] = m[2]
	}

	type imported struct{ Module *moduleOf }
	linked := map[string]*moduleOf{}
	// With the tests, so that the modules that only they import are there as well.
	for _, p := range goList[imported](t, "-deps", "-test", "-json=Module", module+"...") {
		if p.Module != nil && !p.Module.Main {
			linked[p.Module.Path] = p.Module
		}
	}
	for path, m := range linked {
		has := licencesIn(t, m.Dir)
		if len(has) == 0 {
			t.Errorf("%s: no licence in %s that is known", path, m.Dir)
		}
		if m.Indirect {
			continue
		}
		switch licence, ok := rows[path]; {
		case !ok:
			t.Errorf("docs/dependencies.md has no row for %s, which has %q", path, has)
		case !slices.Contains(has, licence), licence == "BSD-2-Clause" && slices.Contains(has, "BSD-3-Clause"):
			t.Errorf("docs/dependencies.md: %s has %q, not %s", path, has, licence)
		}
		delete(rows, path)
	}
	for path := range rows {
		t.Errorf("docs/dependencies.md: nothing imports %s directly", path)
	}
}
