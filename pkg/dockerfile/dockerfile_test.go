package dockerfile

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestBases(t *testing.T) {
	for name, x := range map[string]struct {
		text string
		want []Base
	}{
		"one":             {"FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\nRUN true\n", []Base{{Ref: "nvidia/cuda:12.4.1-runtime-ubuntu22.04", Line: 1}}},
		"lower case":      {"# syntax=docker/dockerfile:1\n\nfrom a as b\n", []Base{{Ref: "a", Line: 3}}},
		"platform":        {"FROM --platform=$BUILDPLATFORM a:1\n", []Base{{Ref: "a:1", Platform: "linux/amd64", Line: 1}}},
		"arguments":       {"ARG CUDA=12.4.1\nARG BASE=nvidia/cuda:${CUDA}-base\nFROM ${BASE}\n", []Base{{Ref: "nvidia/cuda:12.4.1-base", Line: 3}}},
		"default in use":  {"FROM ${BASE:-debian:12}\n", []Base{{Ref: "debian:12", Line: 1}}},
		"no default":      {"ARG TAG\nFROM a:$TAG\n", []Base{{Line: 2, Why: "a:$TAG: the build argument TAG has no default"}}},
		"stage's own ARG": {"FROM a AS x\nARG TAG=1\nFROM b:$TAG\n", []Base{{Ref: "a", Line: 1}, {Line: 3, Why: "b:$TAG: the build argument TAG has no default"}}},
		"builder":         {"FROM golang:1.26 AS build\nRUN go build\nFROM debian:12\nCOPY --from=build /x /x\n", []Base{{Ref: "debian:12", Line: 3}}},
		"by number":       {"FROM golang:1.26\nFROM debian:12\nCOPY --from=0 /x /x\n", []Base{{Ref: "debian:12", Line: 2}}},
		"by mount":        {"FROM a AS build\nFROM b\nRUN --mount=type=bind,from=build,target=/x true\n", []Base{{Ref: "b", Line: 2}}},
		"chain":           {"FROM a AS x\nFROM x AS y\nFROM y\n", []Base{{Ref: "a", Line: 1}}},
		"two targets":     {"FROM a AS base\nFROM base AS gpu\nFROM base AS cpu\nFROM c AS other\n", []Base{{Ref: "a", Line: 1}, {Ref: "c", Line: 4}}},
		"scratch":         {"FROM scratch\nCOPY x /\n", nil},
		"continued":       {"FROM \\\n  a:1 \\\n  AS b\n", []Base{{Ref: "a:1", Line: 1}}},
		"escape":          {"# escape=`\nFROM `\n a:1\n", []Base{{Ref: "a:1", Line: 2}}},
		"here-document":   {"FROM a\nRUN <<X\nFROM b\nX\n", []Base{{Ref: "a", Line: 1}}},
		"itself":          {"FROM a AS a\n", []Base{{Ref: "a", Line: 1}}},
		"no image":        {"FROM\n", []Base{{Line: 1, Why: "FROM names no image"}}},
		"empty argument":  {"ARG B=\nFROM $B\n", []Base{{Line: 2, Why: "$B is empty without a build argument"}}},
	} {
		got, err := Bases(strings.NewReader(x.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i := range got {
			got[i].Targets = nil // see TestTargets
		}
		if diff := gocmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for text, want := range map[string]string{
		"":                                  "file with no instructions",
		"RUN <<X\n":                         "unterminated heredoc",
		strings.Repeat("# long\n", 200_000): "larger than 1024 KiB",
		strings.Repeat("FROM a\n", 1001):    "it has 1001 stages, more than the limit of 1000",
	} {
		if _, err := Bases(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

func TestTargets(t *testing.T) {
	for text, want := range map[string]string{
		"FROM a\n": "a: nothing",
		"FROM a\nLABEL a=b\nEXPOSE 1\nWORKDIR /\nUSER 1\nARG x\nVOLUME /x\nSTOPSIGNAL 9\nSHELL [\"sh\"]\nHEALTHCHECK NONE\nONBUILD RUN x\n": "a: nothing",
		"FROM a\nrun x\nCOPY x \\\n y\nADD x y\nENV A=1 B=2\nENV C d e\nCMD x\nENTRYPOINT [\"x\"]\n":                                        "a: RUN 2, COPY 3, ADD 5, ENV 6 [A B], ENV 7 [C], CMD 8, ENTRYPOINT 9",
		"FROM a AS x\nRUN y\nFROM b\nCOPY --from=x / /\n":                                                                                   "b: COPY 4",
		"FROM a AS x\nRUN 1\nFROM x AS y\nRUN 2\nFROM y\nRUN 3\n":                                                                           "a: RUN 2",
		"FROM a AS x\nFROM x AS gpu\nRUN y\nFROM x AS cpu\nFROM a\nCMD x\n":                                                                 "a: RUN 3; nothing|a: CMD 6",
		"RUN x\nFROM a\n": "a: nothing",
		"FROM a\nRUN <<X\nCOPY x y\nX\nENV A=\"b c\"\n": "a: RUN 2, ENV 5 [A]",
	} {
		bases, err := Bases(strings.NewReader(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		var list []string
		for _, b := range bases {
			var targets []string
			for _, does := range b.Targets {
				var words []string
				for _, in := range does {
					words = append(words, strings.TrimSuffix(fmt.Sprintf("%s %d %v", in.Name, in.Line, in.Variables), " []"))
				}
				targets = append(targets, cmp.Or(strings.Join(words, ", "), "nothing"))
			}
			list = append(list, b.Ref+": "+strings.Join(targets, "; "))
		}
		if got := strings.Join(list, "|"); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// FuzzBases states that each base has either a reference or a reason, and a line of the
// file.
func FuzzBases(f *testing.F) {
	f.Add("ARG A=1\nFROM --platform=$X a:$A AS b\nCOPY --from=b x y\nRUN --mount=from=0 true\nFROM b\nFROM 1\n")
	f.Add("# escape=`\nFROM `\n a:${B:-c}\n")
	f.Fuzz(func(t *testing.T, text string) {
		bases, err := Bases(strings.NewReader(text))
		if err != nil && bases != nil {
			t.Error("bases beside an error")
		}
		lines := strings.Count(text, "\n") + 1
		for _, b := range bases {
			if (b.Ref == "") == (b.Why == "") || len(b.Targets) == 0 || b.Line < 1 || b.Line > lines {
				t.Errorf("%+v of %d lines", b, lines)
			}
		}
	})
}
