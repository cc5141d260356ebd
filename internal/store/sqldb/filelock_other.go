//go:build !unix

package sqldb

import (
	"errors"
	"io"
)

// lockFile refuses, since without a lock two processes could open the same database.
func lockFile(string) (io.Closer, error) {
	return nil, errors.New("the database type sqlite is supported on Unix systems only, because it needs file locks")
}
