package elfdeps

import (
	"bytes"
	"strings"
)

// This file finds crates and functions in read-only data. Rust puts no NUL between its
// strings, so these marks may stand anywhere.

// beginnings are the functions without which no program uses a GPU library, up to the word
// that all of them have (https://docs.nvidia.com/cuda/cublas/#cublascreate and the like;
// NCCL's is one that bindings of the whole library have).
var beginnings = []string{"cublas", "cublasLt", "cudnn", "cufft", "curand", "cusolverDn", "cusparse", "ncclRedOp", "nvrtc"}

// begin is the word that the functions have behind [beginnings]; source is the directory behind
// a crate in the path of a source file; holdsPath is in the names of variables that hold a path.
var (
	begin     = []byte("Create")
	source    = []byte("/src/")
	holdsPath = []byte("_PATH")
)

// maxMark limits a crate or a function, in bytes.
const maxMark = 100

// mark adds the crates, functions and variables in b to the marks.
func (n *named) mark(b []byte) {
	n.each(b, source, func(i int) {
		from := max(0, i-maxMark)
		at := bytes.LastIndexByte(b[from:i], '/')
		if at < 0 {
			return
		}
		if crate := string(b[from+at+1 : i]); isCrate(crate) {
			n.putMark(crate)
		}
	})
	n.each(b, begin, func(i int) {
		for _, f := range beginnings {
			if bytes.HasSuffix(b[max(0, i-len(f)):i], []byte(f)) {
				n.putMark(f + string(begin))
			}
		}
	})
	n.each(b, holdsPath, func(i int) {
		from, to := i, i+len(holdsPath)
		for from > max(0, i-maxVariable) && isVariableByte(b[from-1]) {
			from--
		}
		for to < min(len(b), i+maxVariable) && isVariableByte(b[to]) {
			to++
		}
		n.putMark(string(b[from:to]))
	})
}

// maxVariable limits the bytes of a variable before holdsPath, and those from it on.
const maxVariable = maxMark / 2

// isVariableByte reports whether the names of variables in the environment have c.
func isVariableByte(c byte) bool { return c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' }

// each calls do with the offsets of word in b, within a limit for the object.
func (n *named) each(b, word []byte, do func(int)) {
	for at := 0; ; {
		i := bytes.Index(b[at:], word)
		if i < 0 {
			return
		}
		if n.tries++; n.tries > maxNamedLooks {
			return
		}
		do(at + i)
		at += i + len(word)
	}
}

// putMark adds a mark, within a limit on the bytes of all.
func (n *named) putMark(s string) {
	if n.marks[s] {
		return
	}
	if n.markText += len(s); n.markText > maxNamedText {
		return
	}
	if n.marks == nil {
		n.marks = map[string]bool{}
	}
	n.marks[s] = true
}

// markFar adds the marks in the next bytes behind the window's head, and those that begin in
// the bytes before.
func (n *named) markFar(b []byte) {
	n.mark(b)
	const most = maxMark + 8
	if len(n.edge) > 0 {
		n.mark(append(n.edge[max(0, len(n.edge)-most):len(n.edge):len(n.edge)], b[:min(len(b), most)]...))
	}
	if len(b) >= most {
		n.edge = append(n.edge[:0], b[len(b)-most:]...)
	} else {
		n.edge = append(n.edge, b...)
		n.edge = n.edge[max(0, len(n.edge)-most):]
	}
}

// isCrate reports whether s is NAME-VERSION, as Cargo names the directory of a package.
func isCrate(s string) bool { _, _, ok := Crate(s); return ok }

// Crate splits the directory of a package of Cargo's registries into the package's name and its
// version: log-0.4.20 is log and 0.4.20. ok is false for other texts.
func Crate(dir string) (name, version string, ok bool) {
	for i := 1; i < len(dir); i++ {
		if dir[i-1] != '-' || dir[i] < '0' || dir[i] > '9' {
			continue
		}
		name, version = dir[:i-1], dir[i:]
		numbers, _, _ := strings.Cut(version, "-")
		numbers, _, _ = strings.Cut(numbers, "+")
		if name != "" && strings.Count(numbers, ".") == 2 && !strings.ContainsFunc(numbers, notNumber) && !strings.ContainsFunc(dir, notCrate) {
			return name, version, true
		}
	}
	return "", "", false
}

func notNumber(r rune) bool { return (r < '0' || r > '9') && r != '.' }

func notCrate(r rune) bool { return r > 127 || !isNameByte(byte(r)) || strings.ContainsRune("%${}", r) }
