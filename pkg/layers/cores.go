package layers

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/imgcheck/imgcheck/pkg/inflate"
)

// A gzip layer is decoded on several processors if it has at least minSeveral compressed
// bytes and there are minProcessors, two for each layer that is read meanwhile. The work is
// up to half as much again as on one processor, so that fewer would gain nothing. A variable,
// so that tests can reach it.
var minSeveral = int64(16 << 20)

const minProcessors = 4

// crew is the processors that decode layers, of all images.
var crew = sync.OnceValue(func() *inflate.Crew { return inflate.NewCrew(runtime.GOMAXPROCS(0)) })

// reading counts the compressed bytes of the blobs that are being read, of all images.
var reading atomic.Int64

// several reports whether a blob of a size is decoded on several of so many processors. all is
// the size of everything that is to be read, itself included, in bytes: small layers end
// soon, and leave their processors to a large one.
func several(size, all int64, processors int) bool {
	if size < minSeveral || processors < minProcessors {
		return false
	}
	layers := min(int64(workers()), (all+size-1)/max(1, size))
	return 2*layers <= int64(processors)
}
