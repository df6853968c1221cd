package gpu

import (
	"os"
	"path"
	"reflect"
	"testing"
)

// TestRandom makes random faults in a root that has the files that they name. The same
// seed gives the same faults, another seed different ones, and each can be made.
func TestRandom(t *testing.T) {
	const site = "/opt/torch/.venv/lib/python3.12/site-packages/"
	mapped := []string{
		site + "nvidia/cu13/lib/libcublas.so.13", site + "nvidia/cudnn/lib/libcudnn.so.9", site + "torch/lib/libc10.so", site + "numpy.libs/libblas.so",
		site + "cupy/_core/core.so", "/usr/lib/python3.12/lib-dynload/_ctypes.so", "/usr/lib/x86_64-linux-gnu/libz.so.1.3",
	}
	also := []string{"/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcublas.so.13.1", "/usr/local/nvidia/lib64/libcuda.so.1"}
	root := func() string {
		dir := t.TempDir()
		for _, file := range append(also, mapped...) {
			if err := os.MkdirAll(dir+path.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+file, make([]byte, 8192), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	whole := root()
	faults := Random(whole, mapped, 3, 200)
	if !reflect.DeepEqual(faults, Random(whole, mapped, 3, 200)) || reflect.DeepEqual(faults[:20], Random(whole, mapped, 4, 20)) {
		t.Error("the faults do not hang on the seed")
	}
	touched := false
	for _, f := range faults {
		for _, p := range f.Remove {
			touched = touched || p == also[1]
		}
		if err := f.Apply(root()); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	if touched {
		t.Error("a fault is about a file of the host's driver")
	}
}
