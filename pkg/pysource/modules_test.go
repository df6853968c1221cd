package pysource

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestModules(t *testing.T) {
	const script = `#!/usr/bin/env python3
"""Not this:
import docstring
"""
from __future__ import annotations
import os, sys as system
import importlib.util; import time  # import comment
text = 'import quoted' + "\"import escaped"
from .backend import (  # relative
    load,
    name as other,
)
from comfy import \
    utils
from . import here
x = [
import_list,
]
try:
    import torch
except ImportError:
	import numpy
if True: pass
importlib.reload(os)
from a.b import *
`
	want := "__future__ __future__.annotations os sys importlib.util time .backend .backend.load .backend.name comfy comfy.utils .here ?torch ?numpy a.b"
	for _, text := range [][]byte{[]byte(script), Reduce([]byte(script))} {
		var got []string
		for _, m := range Modules(text) {
			if m.Guarded {
				m.Name = "?" + m.Name
			}
			got = append(got, m.Name)
		}
		if d := cmp.Diff(want, strings.Join(got, " ")); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	}
}

// TestModulesPartial: that a file was cut short is the last module.
func TestModulesPartial(t *testing.T) {
	got := Modules([]byte(reducedMark + ": it is too long\nimport a\n"))
	if d := cmp.Diff([]Module{{"a", false}, {"?", false}}, got); d != "" {
		t.Error(d)
	}
}
