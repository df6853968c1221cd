package layers

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
)

// minIgzip is the size from which a blob is unpacked by igzip, in bytes: a process takes a
// millisecond or two to start.
var minIgzip = int64(8 << 20)

// findIgzip returns the path of ISA-L's igzip, or "" if there is none that works.
var findIgzip = sync.OnceValue(func() string {
	p, err := exec.LookPath("igzip")
	if err != nil || !gunzips(p) {
		return ""
	}
	return p
})

// programOf returns the result of find, or "" if find is nil.
func programOf(find func() string) string {
	if find == nil {
		return ""
	}
	return find()
}

// gunzips reports whether a program unpacks all members of a gzip file, and fails if one
// is cut off: another program would make a layer look empty.
func gunzips(program string) bool {
	var two bytes.Buffer
	const text = "a member of two\n"
	for range 2 {
		z := gzip.NewWriter(&two)
		z.Write([]byte(text))
		z.Close()
	}
	run := func(b []byte) ([]byte, error) {
		cmd := exec.Command(program, "-dc")
		cmd.Stdin = bytes.NewReader(b)
		return cmd.Output()
	}
	whole, err := run(two.Bytes())
	_, cut := run(two.Bytes()[:two.Len()-1])
	return err == nil && string(whole) == text+text && cut != nil
}

// pipeSize is the size of a pipe between two processes, in bytes. With Linux's 64 KiB
// they wake one another so often that it costs more than igzip saves.
const pipeSize = 1 << 20

// outsideError is an error of a layer that a program has unpacked. Reading the layer again
// by inflate shows whether the layer or the program is at fault.
type outsideError struct {
	program string
	error
}

// outside returns r unpacked by a program that filters gzip. The caller must call stop
// before it reads r again.
func outside(program string, r io.Reader) (*chunks, error) {
	cmd := exec.Command(program, "-dc")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	for _, p := range []any{in, out} {
		if f, ok := p.(*os.File); ok {
			enlarge(f)
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		// An error here shows up in the program's status, or when r is read again.
		io.CopyBuffer(struct{ io.Writer }{in}, r, make([]byte, aheadSize))
		in.Close()
	}()
	wait := sync.OnceValue(func() error {
		<-fed
		return cmd.Wait()
	})
	buf := make([]byte, 2*aheadSize)
	next := func() ([]byte, error) {
		n, err := out.Read(buf)
		switch {
		case n > 0:
			return buf[:n], nil
		case err == nil:
			return nil, nil
		}
		if failed := wait(); failed != nil {
			return nil, failed
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
			return nil, err
		}
		return nil, io.EOF
	}
	return &chunks{next: next, stop: func() {
		cmd.Process.Kill() // unless it has ended
		wait()
	}}, nil
}
