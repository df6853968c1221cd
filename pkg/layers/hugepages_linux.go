package layers

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of most machines' huge pages, in bytes. Where theirs are
// larger, nothing comes of it.
const hugePage = 2 << 20

// hugePages asks for huge pages from where b begins on, n bytes: a decoder's
// window is read all over, and with pages of 4 KiB the processor looks up a page
// for most matches. The kernel gives them to whoever asks where it is set to
// "madvise", as most distributions have it (admin-guide/mm/transhuge.rst); Go asks
// for none. Where it cannot be done nothing is different.
func hugePages(b []byte, n uint64) {
	if len(b) == 0 {
		return
	}
	at := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	from, to := (at+hugePage-1)&^(hugePage-1), (at+n)&^(hugePage-1)
	if from < to {
		unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_HUGEPAGE)
	}
}
