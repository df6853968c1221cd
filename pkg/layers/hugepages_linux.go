package layers

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of most machines' huge pages, in bytes. On a machine with larger
// ones the advice has no effect.
const hugePage = 2 << 20

// hugePages asks the kernel for huge pages for n bytes from the start of b: matches in
// a decoder's window are far apart, and with pages of 4 KiB the processor looks up a
// page for most of them. A kernel that is set to "madvise", as in most distributions,
// grants huge pages on request (admin-guide/mm/transhuge.rst), and Go does not ask. Errors
// are ignored.
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
