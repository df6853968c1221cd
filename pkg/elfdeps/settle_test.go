package elfdeps

import (
	"strings"
	"testing"
)

// TestSettle: a tracing process goes on after misses. Once settled, it binds the libraries
// that it opens, unloads those that fail, and keeps the others.
func TestSettle(t *testing.T) {
	running := startText(t, "2.36", program+"needed liba.so\n"+
		"-- 0/lib64/liba.so --\nelf x86_64 soname=liba.so\nundef nowhere data\n"+
		"-- 0/lib64/libb.so --\nelf x86_64 soname=libb.so\nundef nowhere data\n"+
		"-- 0/lib64/libc1.so --\nelf x86_64 soname=libc1.so\nneeded liba.so\nneeded libd.so\n"+
		"-- 0/lib64/libd.so --\nelf x86_64 soname=libd.so\n", nil, nil)
	p, err := running.Loader.Trace("/app/main")
	if err != nil {
		t.Fatal(err)
	}
	p.Settle()
	if _, err := p.Dlopen(nil, "libb.so"); err == nil || !strings.Contains(err.Error(), "undefined symbol: nowhere") {
		t.Errorf("libb.so opens with %v", err)
	}
	if p.Loaded("libb.so") != nil {
		t.Error("libb.so stays")
	}
	if _, err := p.Dlopen(nil, "libc1.so"); err != nil || p.Loaded("libd.so") == nil {
		t.Errorf("libc1.so: %v: its dependency was loaded before, and is not bound again", err)
	}
	if _, err := p.Dlopen(nil, "libnone.so"); err == nil {
		t.Error("libnone.so opens")
	}
}
