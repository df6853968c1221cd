package gpucode

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWalker: entries of any header size count, and bytes that only look like a container
// do not.
func TestWalker(t *testing.T) {
	got := walk(t, sample, []Area{{0, int64(len(sample))}}, len(sample), false)
	want := &Code{Groups: []Group{
		{Containers: 1, Bytes: 216, Entries: []Entry{
			{Kind: PTX, Arch: 90, Flags: Zstd | Specific, ISA: 8<<8 | 4, Count: 1}, {Kind: SASS, Arch: 75, Count: 1},
		}, Payloads: []int64{16, 40}},
		{Containers: 1, Bytes: 88, Entries: []Entry{{Kind: SASS, Arch: 120, Flags: Family | Mercury, Count: 1}}, Payloads: []int64{8}},
		{Containers: 1, Bytes: 184, Entries: []Entry{{Kind: IR, Arch: 75, Count: 1}}, Payloads: []int64{0}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCut: a container that is cut off has the entries before that.
func TestCut(t *testing.T) {
	b := containerBytes(entryBytes(SASS, 75, 0, 64, 8), entryBytes(SASS, 80, 0, 64, 8), entryBytes(SASS, 90, 0, 64, 8))
	for n, archs := range map[int][]uint32{100: {75}, 200: {75, 80}, len(b) - 1: {75, 80, 90}, 79: nil} {
		got := walk(t, b[:n], []Area{{0, int64(n)}}, n, false)
		if got == nil || got.Partial == "" {
			t.Fatalf("%d bytes: got %+v", n, got)
		}
		var has []uint32
		for _, g := range got.Groups {
			for _, e := range g.Entries {
				has = append(has, e.Arch)
			}
		}
		if !slices.Equal(has, archs) {
			t.Errorf("%d bytes: got %v, want %v", n, has, archs)
		}
	}
}

// TestLimits: a hostile file has its end.
func TestLimits(t *testing.T) {
	var many []byte
	for arch := range uint32(maxDistinct + 5) {
		many = append(many, entryBytes(SASS, arch, 0, 64, 0)...)
	}
	b := containerBytes(many)
	if got := walk(t, b, []Area{{0, int64(len(b))}}, len(b), false); got == nil || got.Partial == "" {
		t.Errorf("got %+v", got)
	}
	b = nil
	for i := range maxGroups + 5 {
		b = append(b, containerBytes(entryBytes(SASS, uint32(i%100), 0, 64, 0), entryBytes(SASS, uint32(1000+i/100), 0, 64, 0))...)
	}
	if got := walk(t, b, []Area{{0, int64(len(b))}}, len(b), false); got == nil || got.Partial == "" || len(got.Groups) > maxGroups {
		t.Errorf("got %d groups", len(got.Groups))
	}
}

// TestTargets finds the names that a compiler takes, in pieces of any size.
func TestTargets(t *testing.T) {
	text := "\x00compute_75\x00sm_37\x00x compute_52\x00--arch=compute_90a\x00compute_100f\x00compute_7\x00compute_80 \x00=compute_121a\x00"
	for n := 1; n <= len(text); n++ {
		var targets Targets
		if _, err := io.CopyBuffer(struct{ io.Writer }{&targets}, struct{ io.Reader }{bytes.NewReader([]byte(text))}, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"75", "90a", "100f", "121a"}, targets.List()); diff != "" {
			t.Fatalf("in pieces of %d: -want +got:\n%s", n, diff)
		}
	}
	for base, want := range map[string]bool{
		"ptxas": true, "ptxas-blackwell": true, "libnvrtc.so.12": true, "libnvrtc-b51b459d.so.12": true,
		"libnvrtc-builtins.so.13.0": false, "ptxas.h": false, "libnvrtc.a": false, "nvcc": false,
	} {
		if CompilesFor(base) != want {
			t.Errorf("CompilesFor(%q) is %v", base, !want)
		}
	}
}

// TestClaims finds PyTorch's list of architectures, in pieces of any size, and none where two
// texts may be it.
func TestClaims(t *testing.T) {
	const list = "sm_50 sm_90a sm_120 compute_120"
	for text, want := range map[string]string{
		"x\x00sm_7\x00sm_80 sm_x\x00 sm_75\x00" + list + "\x00\x00compute_90 or later\x00": list,
		"\x00compute_90\x00":                                         "compute_90",
		"\x00sm_80\x00\x00sm_80\x00":                                 "sm_80",
		"\x00sm_80\x00sm_90\x00":                                     "",
		"\x00sm_80 \x00sm_80  sm_90\x00sm_80;sm_90\x00sm_90":         "",
		"\x00sm_10" + strings.Repeat(" sm_10", maxClaims/6) + "\x00": "",
	} {
		for n := 1; n <= len(text); n++ {
			var claims Claims
			if _, err := io.CopyBuffer(struct{ io.Writer }{&claims}, struct{ io.Reader }{strings.NewReader(text)}, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(claims.List(), " "); got != want {
				t.Fatalf("%q in pieces of %d: got %q, want %q", text, n, got, want)
			}
		}
	}
	for base, want := range map[string]bool{"libtorch_python.so": true, "libtorch_python.so.2.6.0": true, "libtorch.so": false, "libtorch_python.sox": false} {
		if ClaimsCode(base) != want {
			t.Errorf("ClaimsCode(%q) is %v", base, !want)
		}
	}
}
