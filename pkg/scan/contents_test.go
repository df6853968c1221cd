//go:build unix

package scan

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestCopySparse: a copy has the same bytes, and zeros take no room.
func TestCopySparse(t *testing.T) {
	for _, n := range []int{0, 1, 64 << 10, 64<<10 + 1, 40 << 20} {
		data := make([]byte, n)
		if n > 2 {
			data[0], data[n-1] = 1, 2
		}
		f, err := os.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := copySparse(f, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(io.NewSectionReader(f, 0, int64(n)+1))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: %d bytes that differ, %v", n, len(got), err)
		}
		var st syscall.Stat_t
		if err := syscall.Fstat(int(f.Fd()), &st); err != nil || st.Blocks*512 > 1<<20 {
			t.Errorf("%d bytes take %d on disk, %v", n, st.Blocks*512, err)
		}
	}
	if err := copySparse(nil, io.MultiReader(bytes.NewReader(make([]byte, 9)), broken{})); err != io.ErrUnexpectedEOF {
		t.Errorf("the error of the reader is %v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
