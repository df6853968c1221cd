package layers

import (
	"os"

	"golang.org/x/sys/unix"
)

// enlarge makes a pipe hold pipeSize bytes, if the user may.
func enlarge(pipe *os.File) {
	c, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	c.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
}
