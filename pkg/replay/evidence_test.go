package replay

import (
	"fmt"
	"maps"
	"sync"
	"testing"
)

// TestEvidenceDoesNotChange checks that the questions of rules leave the evidence as it is,
// and that concurrent callers get the same answers.
func TestEvidenceDoesNotChange(t *testing.T) {
	const other = "/opt/lib64/ld-linux-x86-64.so.2" // a loader that no file of the image names
	img := &Image{FS: fsOf(t, debianRoot+debianConf+
		"-- 0"+other+" --\nelf x86_64 soname=ld-linux-x86-64.so.2\n"+
		"rodata \"ld.so (Debian GLIBC 2.36-9+deb12u9) stable release version 2.36.\\x00\"\nrodata \"/lib/x86_64-linux-gnu/\\x00/usr/lib/x86_64-linux-gnu/\\x00/lib/\\x00/usr/lib/\\x00\"\n"+
		"-- 0/usr/lib/python3/dist-packages/torch-2.4.0.dist-info/METADATA --\nName: torch\nVersion: 2.4.0\n"+
		"-- 0/opt/libx.so --\nelf x86_64 soname=libx.so\nneeded liby.so\n")}
	ev, err := Run(t.Context(), img, embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	loaders := maps.Clone(ev.Loaders.All)
	answers := make([]string, 4)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			l := ev.Loaders.Loader(other)
			if l == nil {
				t.Error("the other loader cannot be opened")
				return
			}
			misses := ev.Loaders.OpenPath(ev.Loaders.ProgramFor("/opt/libx.so", l), "/opt/libx.so")
			answers[i] = fmt.Sprint(
				l.Libc.Release, misses, ev.Packages.Choose(), ev.Packages.DistributionsAt("/usr/lib/python3/dist-packages"),
				ev.Packages.ReleaseOf("/opt/libx.so"), ev.Files.Glob("/opt", "*.so"), ev.Loaders.DriverComesFirst())
		})
	}
	wg.Wait()
	for _, answer := range answers {
		if answer != answers[0] {
			t.Errorf("one caller gets %s, another %s", answers[0], answer)
		}
	}
	if !maps.Equal(loaders, ev.Loaders.All) {
		t.Errorf("the loaders were %v, and are %v after a question", loaders, ev.Loaders.All)
	}
	if misses := ev.Files.ByPath["/opt/libx.so"].Misses; len(misses) != 1 {
		t.Errorf("misses %v", misses)
	}
}
