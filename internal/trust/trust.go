// Package trust says which files of a machine that several people use a program may
// believe: those that no other user can have written ([Owner], [Mode], [Open]), and those
// that carry a code which only the holder of a key can make ([Key]).
//
// It does not know what is in the files.
package trust

import (
	"errors"
	"io/fs"
	"os"
)

// ErrIrregular is the error of a directory, a device or a FIFO in the place of a file.
var ErrIrregular = errors.New("is no regular file")

// File returns an error unless a file is regular and only the user and root can write it.
func File(st fs.FileInfo) error {
	if !st.Mode().IsRegular() {
		return ErrIrregular
	}
	return errors.Join(Owner(st), Mode(st))
}

// Open opens a file to read. It neither follows a link in the file's place nor waits for
// the writer of a FIFO, and refuses what is not regular or belongs to another user.
func Open(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|Nonblocking|NoFollow, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = ErrIrregular
	}
	if err == nil {
		err = Owner(st)
	}
	if err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f, nil
}

// MakeDir makes a directory that only the user can enter, if there is none. It returns an
// error for one that belongs to another user, and for a link in its place.
func MakeDir(name string) error {
	if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(name)
	if err == nil && !st.IsDir() {
		err = errors.New("is no directory")
	}
	if err == nil {
		err = Owner(st)
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return nil
}
