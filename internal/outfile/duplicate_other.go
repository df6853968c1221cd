//go:build !unix

package outfile

import (
	"errors"
	"os"
)

// duplicate is never called, because no name stands for a descriptor.
func duplicate(int, string) (*os.File, error) { return nil, errors.ErrUnsupported }
