package patch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// lockName is the file of a layout that is locked while its index.json is read and
// replaced. It exists only meanwhile.
const lockName = ".imgcheck-lock"

// locked calls f while no other imgcheck changes the layout's index.json. Other programs
// ignore the lock. On a file system without locks f is called without one.
func (l *layout) locked(ctx context.Context, f func() error) error {
	file := filepath.Join(l.dir, lockName)
	for {
		if st, err := os.Lstat(file); err == nil && !st.Mode().IsRegular() {
			return fmt.Errorf("%s is no file", file) // flock would make a link's target
		}
		lock := flock.New(file, flock.SetPermissions(0o644))
		_, err := lock.TryLockContext(ctx, 10*time.Millisecond)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			os.Remove(file)
			return f()
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("locking the layout: %w", source.PathError(err))
		}
		if stillNamed(lock, file) {
			defer lock.Close()
			defer os.Remove(file) // before the lock is released
			return f()
		}
		lock.Close() // the process that had it has removed the file
	}
}

// stillNamed reports whether a lock is on the file that has the name now.
func stillNamed(lock *flock.Flock, file string) bool {
	have, err := lock.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(file)
	return err == nil && os.SameFile(have, now)
}
