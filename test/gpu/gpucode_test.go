package gpu

import (
	"bufio"
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
)

// containers writes a file of containers, and text in front of and between them.
func containers(t *testing.T, lines ...string) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("padding\x00" + fatbinMagic + "\xff\xff\xff\xff\xff\xff\xff\xff") // no container
	for _, line := range lines {
		f, err := imagetest.ParseFatbin(line)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(f.Bytes())
		b.Write(make([]byte, 24))
	}
	name := filepath.Join(t.TempDir(), "kernels.bin")
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// read returns the numbers of entries by kind, name and flag, as pkg/gpucode reads the file.
func read(t *testing.T, name string) map[string]int {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	code, err := gpucode.ReadFatbin(bufio.NewReader(bytes.NewReader(b)), int64(len(b)))
	if err != nil || code == nil || code.Partial != "" {
		t.Fatalf("%+v, %v", code, err)
	}
	counts := map[string]int{}
	for _, g := range code.Groups {
		for _, e := range g.Entries {
			key := map[gpucode.Kind]string{gpucode.SASS: "sm_", gpucode.PTX: "compute_", gpucode.IR: "lto_"}[e.Kind] + e.Name()
			if e.Kind == gpucode.PTX {
				key += "@" + e.ISA.String()
			}
			if e.Flags&gpucode.Zstd != 0 {
				key += "/zstd"
			}
			counts[key] += int(g.Containers * e.Count)
		}
	}
	return counts
}

func TestGPUFaults(t *testing.T) {
	lines := []string{"count=3 sm_80 sm_90 compute_90@8.4", "count=2 sm_90a/zstd", "lto_90", "sm_75/zstd compute_75@8.0/zstd"}
	for _, tt := range []struct {
		name    string
		edit    func(string) (int, error)
		changed int
		want    map[string]int
	}{
		{"retarget", func(f string) (int, error) { return RetargetFile(f, 90, 130) }, 9, map[string]int{"sm_80": 3, "sm_130": 3, "compute_130@8.4": 3, "sm_130a/zstd": 2, "lto_130": 1, "sm_75/zstd": 1, "compute_75@8.0/zstd": 1}},
		{"retarget nothing", func(f string) (int, error) { return RetargetFile(f, 120, 130) }, 0, map[string]int{"sm_80": 3, "sm_90": 3, "compute_90@8.4": 3, "sm_90a/zstd": 2, "lto_90": 1, "sm_75/zstd": 1, "compute_75@8.0/zstd": 1}},
		{"zstd", ClearZstd, 4, map[string]int{"sm_80": 3, "sm_90": 3, "compute_90@8.4": 3, "sm_90a": 2, "lto_90": 1, "sm_75": 1, "compute_75@8.0": 1}},
		{"ptx whose texts cannot be read", func(f string) (int, error) { return RaisePTX(f, "9.9") }, 0, map[string]int{"sm_80": 3, "sm_90": 3, "compute_90@8.4": 3, "sm_90a/zstd": 2, "lto_90": 1, "sm_75/zstd": 1, "compute_75@8.0/zstd": 1}},
	} {
		file := containers(t, lines...)
		before, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		n, err := tt.edit(file)
		if err != nil || n != tt.changed {
			t.Errorf("%s: changed %d entries (%v), want %d", tt.name, n, err, tt.changed)
		}
		after, err := os.Stat(file)
		if err != nil || after.Size() != before.Size() {
			t.Errorf("%s: the size is %d, and was %d (%v)", tt.name, after.Size(), before.Size(), err)
		}
		if got := read(t, file); !maps.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestRaisePTX raises the version in a text.
func TestRaisePTX(t *testing.T) {
	file := containers(t, "compute_90@8.4")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := "//\n.version 8.4\n.target sm_90\n"
	copy(b[len(b)-24-1024:], text) // the payload is the container's end
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if n, err := RaisePTX(file, "9.9"); n != 1 || err != nil {
		t.Fatalf("changed %d (%v)", n, err)
	}
	if got := read(t, file); got["compute_90@9.9"] != 1 {
		t.Errorf("got %v", got)
	}
	after, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(after, []byte("//\n.version 9.9\n.target sm_90\n")) {
		t.Errorf("the text is %q (%v)", after, err)
	}
	for _, version := range []string{"", "9", "10.0", "x.y"} {
		if _, err := RaisePTX(file, version); err == nil {
			t.Errorf("%q is taken", version)
		}
	}
}

// TestCutContainer leaves what is no whole container as it is.
func TestCutContainer(t *testing.T) {
	file := containers(t, "sm_90")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b = b[:len(b)-60]
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	n, err := RetargetFile(file, 90, 130)
	after, rerr := os.ReadFile(file)
	if n != 0 || err != nil || rerr != nil || !bytes.Equal(b, after) {
		t.Errorf("changed %d entries (%v, %v)", n, err, rerr)
	}
}
