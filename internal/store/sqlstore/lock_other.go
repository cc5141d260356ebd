//go:build !unix

package sqlstore

import (
	"errors"
	"io"
)

// lockFile refuses, since without a lock two processes could open the same database.
func lockFile(string) (io.Closer, error) {
	return nil, errors.New("the database type sqlite is supported on Unix systems only: no file locks here")
}
