package layers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// pseudo maps statfs(2)'s f_type to the names of the kernel's own file systems. They do
// not belong to the image, and reading some of their files never ends.
var pseudo = map[int64]string{
	0x9fa0: "proc", 0x62656572: "sysfs", 0x1cd1: "devpts", 0x63677270: "cgroup2", 0x27e0eb: "cgroup",
	0x64626720: "debugfs", 0x74726163: "tracefs", 0xcafe4a11: "bpf", 0x19800202: "mqueue", 0x73636673: "securityfs",
	0x6165676c: "pstore", 0x42494e4d: "binfmt_misc", 0x6e736673: "nsfs",
}

// pseudoFS returns the name of the kernel's file system that p is on, or "" for another
// file system.
func pseudoFS(p string) string {
	var st syscall.Statfs_t
	if syscall.Statfs(p, &st) != nil {
		return ""
	}
	return pseudo[int64(st.Type)]
}

func statOf(info fs.FileInfo) fileStat {
	st := info.Sys().(*syscall.Stat_t)
	return fileStat{st.Dev, st.Ino, st.Uid, st.Gid}
}

// openFlags make an open neither follow a link nor wait for a FIFO's writer.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// xattrsOf returns the extended attributes of a file, without those that the security
// module of this machine has set.
func xattrsOf(f *os.File) (map[string]string, error) {
	fd := int(f.Fd())
	names := make([]byte, 64<<10) // XATTR_LIST_MAX
	n, err := unix.Flistxattr(fd, names)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("its extended attributes: %w", err)
	}
	all := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		if name == "" || name == "security.selinux" || name == "security.ima" || name == "security.evm" {
			continue
		}
		value := make([]byte, 64<<10) // XATTR_SIZE_MAX
		n, err := unix.Fgetxattr(fd, name, value)
		if err != nil {
			return nil, fmt.Errorf("its extended attribute %s: %w", plain.Name(name), err)
		}
		all[name] = string(value[:n])
	}
	return all, nil
}

func hasCapabilities(f *os.File) bool {
	n, err := unix.Fgetxattr(int(f.Fd()), "security.capability", nil)
	return err == nil && n > 0
}
