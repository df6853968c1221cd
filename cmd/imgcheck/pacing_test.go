package main

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/scan"
)

// TestBorrowing checks that the heap has more room only until a layer is read, and that the heap of the judging is
// spared only if none was.
func TestBorrowing(t *testing.T) {
	percent := debug.SetGCPercent(100)
	t.Cleanup(func() {
		room.Store(0)
		spared.Store(0)
		borrowed.Store(false)
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(math.MaxInt64)
	})
	borrowing()
	if room.Load() != 0 || borrowed.Load() {
		t.Fatal("a process that is not paced is")
	}
	room.Store(roomToRead)
	borrowing()
	if room.Load() != roomToJudge {
		t.Error("no more room for indexes")
	}
	layerRead()
	if room.Load() != roomToRead {
		t.Error("more room for a layer")
	}
	pacing(scan.Judging)
	if room.Load() != roomToJudge || spared.Load() != 0 {
		t.Errorf("after layers %d of the heap are spared", spared.Load())
	}
	layerRead()
	if room.Load() != roomToJudge {
		t.Error("less room for judging")
	}
	room.Store(roomToRead)
	borrowing()
	pacing(scan.Judging)
	if n := spared.Load(); n < roomToJudge || n > heapSize()*2+roomToJudge+roomToBegin {
		t.Errorf("after indexes %d of the heap are spared", n)
	}
	pacing(scan.Rewriting)
	if room.Load() != roomToRead || spared.Load() != 0 {
		t.Error("more room for layers that are written anew")
	}
}
