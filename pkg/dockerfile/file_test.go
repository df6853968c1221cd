package dockerfile

import (
	"strings"
	"testing"
)

func read(t *testing.T, text string) *File {
	t.Helper()
	f, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestRead(t *testing.T) {
	f := read(t, "ARG CUDA=12.4.1\nFROM nvidia/cuda:${CUDA}-base AS base\nENV A=1 B=$A\nFROM python:3.12 AS build\nRUN --mount=type=cache,target=/x pip \\\n  install y\nFROM base\nCOPY --from=build /opt/venv /opt/venv\nCOPY --from=ghcr.io/astral-sh/uv:0.5 /uv /bin/\nCMD [\"a\", \"b\"]\nRUN <<EOF\necho $A\nEOF\n")
	if got := f.Targets(); len(got) != 1 || got[0] != 2 {
		t.Errorf("targets %v", got)
	}
	if got := f.Chain(2); len(got) != 2 || got[0] != 0 {
		t.Errorf("chain %v", got)
	}
	last := f.Stages[2].Steps
	if last[0].From != 1 || last[1].From != -1 || last[1].FromRef != "ghcr.io/astral-sh/uv:0.5" || !last[2].JSON || len(last[2].Words) != 2 || last[3].Heredocs[0].Content != "echo $A\n" {
		t.Errorf("steps %+v", last)
	}
	if run := f.Stages[1].Steps[0]; run.Line != 5 || run.EndLine != 6 || len(run.Flags) != 1 {
		t.Errorf("RUN %+v", run)
	}
}

func TestScope(t *testing.T) {
	f := read(t, "ARG CUDA=12.4\nFROM a\nARG CUDA\nARG TAG\nENV A=$CUDA B=$TAG C=${TAG:-x} D=$NONE E=$HOME\n")
	for _, known := range []bool{false, true} {
		s := f.Scope([]string{"HOME=/root"}, known)
		for i := range f.Stages[0].Steps {
			s.Set(&f.Stages[0].Steps[i])
		}
		for name, want := range map[string]string{"A": "12.4", "E": "/root"} {
			if got, ok := s.Get(name); got != want || !ok {
				t.Errorf("%s = %q, %v", name, got, ok)
			}
		}
		if _, ok := s.Get("B"); ok {
			t.Error("a build argument without a value is known")
		}
		if _, ok := s.Get("D"); ok != known {
			t.Errorf("a variable that nothing sets: %v, want %v", ok, known)
		}
	}
}
