package jar

import (
	"archive/zip"
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

func archive(t testing.TB, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, n := range names {
		f, err := w.Create(n)
		if err == nil {
			_, err = f.Write([]byte("text"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func kept(t testing.TB, name string, b []byte) ([]string, string) {
	t.Helper()
	text, err := Extract(int64(len(b)))(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return Libraries(&layers.Entry{Path: name, Type: layers.Regular, Size: int64(len(b)), Content: text})
}

// TestLibraries: libraries for Linux, and archives of them, are named; other systems' are not.
func TestLibraries(t *testing.T) {
	b := archive(t,
		"META-INF/MANIFEST.MF", "ai/onnxruntime/OrtSession.class",
		"ai/onnxruntime/native/linux-x64/libonnxruntime_providers_cuda.so",
		"ai/onnxruntime/native/win-x64/onnxruntime.dll",
		"org/sqlite/native/FreeBSD/x86_64/libsqlitejdbc.so",
		"org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so.1",
		"BOOT-INF/lib/tensorflow-core-native-1.0.0-linux-x86_64-gpu.jar", "BOOT-INF/lib/jackson-core-2.16.jar",
		"BOOT-INF/lib/onnxruntime-1.15.0.jar", "BOOT-INF/lib/onnxruntime-extensions-api-0.1.jar", "BOOT-INF/lib/onnxruntime-1.15.0-sources.jar",
		"BOOT-INF/lib/tensorflow-core-native-1.0.0-macosx-arm64.jar")
	got, why := kept(t, "app/app.jar", b)
	want := []string{
		"BOOT-INF/lib/onnxruntime-1.15.0.jar",
		"BOOT-INF/lib/tensorflow-core-native-1.0.0-linux-x86_64-gpu.jar", "ai/onnxruntime/native/linux-x64/libonnxruntime_providers_cuda.so",
		"org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so.1",
	}
	if !slices.Equal(got, want) || why != "" {
		t.Errorf("%q, %q; want %q", got, why, want)
	}
	whole := &layers.Entry{Path: "app/app.jar", Type: layers.Regular, Size: int64(len(b)), Content: b}
	if got, why := Libraries(whole); !slices.Equal(got, want) || why != "" {
		t.Errorf("kept whole: %q, %q; want %q", got, why, want)
	}
	if got, why := kept(t, "app/app.zip", b); got != nil || why != "" {
		t.Errorf("of a zip file: %q, %q", got, why)
	}
	if got, why := kept(t, "app/none.jar", bytes.Repeat([]byte("no archive"), 9)); got != nil || why != "" {
		t.Errorf("of another file: %q, %q", got, why)
	}
}

// TestDamaged: an archive whose directory is damaged is not read, which is said.
func TestDamaged(t *testing.T) {
	b := archive(t, "a/liba.so", "a/libb.so")
	i := bytes.LastIndex(b, []byte("PK\x01\x02"))
	b[i] = 'X'
	if got, why := kept(t, "app/app.jar", b); got != nil || !strings.Contains(why, "cannot be read") {
		t.Errorf("%q, %q", got, why)
	}
}

// FuzzExtract: a name is a library for Linux of the archive, and what is kept is bounded.
func FuzzExtract(f *testing.F) {
	f.Add(archive(f, "linux-x86_64/libx.so", "a b/liby.so.2"))
	f.Add([]byte("PK\x05\x06" + strings.Repeat("\x00", 18)))
	f.Fuzz(func(t *testing.T, b []byte) {
		text, err := Extract(int64(len(b)))(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > maxKept*(maxName+1)+len(b)+1000 {
			t.Fatalf("%d bytes are kept of %d", len(text), len(b))
		}
		names, _ := Libraries(&layers.Entry{Path: "x.jar", Type: layers.Regular, Size: int64(len(b)), Content: text})
		for _, n := range names {
			if !forLinux(n) || !bytes.Contains(b, []byte(n)) {
				t.Fatalf("%q is no library of the archive", n)
			}
		}
	})
}
