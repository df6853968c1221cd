//go:build !unix

package outfile

import (
	"errors"
	"os"
)

// duplicate always fails. It is not called, because no name stands for a descriptor here.
func duplicate(int, string) (*os.File, error) { return nil, errors.ErrUnsupported }
