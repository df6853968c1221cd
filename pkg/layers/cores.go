package layers

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/imgcheck/imgcheck/pkg/inflate"
)

// A gzip layer is decoded on several processors if it has at least minSeveral compressed bytes,
// there are minProcessors, and each layer that is read has two. The work is half as much
// again as on one processor, so that fewer would gain nothing. A variable, so that tests can
// reach it.
var minSeveral = int64(16 << 20)

const minProcessors = 4

// crew is the processors that decode layers, of all images.
var crew = sync.OnceValue(func() *inflate.Crew { return inflate.NewCrew(runtime.GOMAXPROCS(0)) })

// reading counts the blobs that are being read, of all images.
var reading atomic.Int64

// several reports whether a blob of a size in bytes is decoded on several of so many
// processors, while so many blobs are read.
func several(size int64, processors, blobs int) bool {
	return size >= minSeveral && processors >= minProcessors && 2*blobs <= processors
}
