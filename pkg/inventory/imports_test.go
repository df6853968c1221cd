package inventory

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestImports(t *testing.T) {
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
	var got []string
	for _, i := range Imports([]byte(script)) {
		if i.Guarded {
			i.Name = "?" + i.Name
		}
		got = append(got, i.Name)
	}
	want := "__future__ __future__.annotations os sys importlib.util time .backend .backend.load .backend.name comfy comfy.utils .here ?torch ?numpy a.b"
	if d := cmp.Diff(want, strings.Join(got, " ")); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// FuzzImports states that the kept statements of a file give the same imports as the
// file, up to the limit, and are short.
func FuzzImports(f *testing.F) {
	for _, s := range []string{"import a", "from a import (b,\n c)", "'''\nimport a\n'''\nimport b;import c", " import a\\\n", "from . import x", "from a \f%b import x", strings.Repeat("import abcdefgh\n", 1000), "from .import a", "import a.b as c\r\nimport d"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kept, err := extractImports(bytes.NewReader(b))
		if err != nil || len(kept) > maxImports {
			t.Fatalf("%d bytes are kept, %v", len(kept), err)
		}
		want, got := Imports(b[:min(len(b), maxScript)]), Imports(kept)
		if n := len(got); n > 0 && got[n-1].Name == "?" && n <= len(want) {
			got, want = got[:n-1], want[:n-1]
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("-of the file +of the kept statements:\n%s", d)
		}
	})
}
