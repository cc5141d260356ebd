//go:build faults

package sqldb

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// faultsVariable is the environment variable with the path of the Unix socket that decides about faults.
const faultsVariable = "SCANNER_FAULTS"

var faultsSocket = sync.OnceValue(func() string { return os.Getenv(faultsVariable) })

// inject reports a stage of a transaction that writes ("begin", "statement", "commit" or "committed") and the purpose of the transaction, and waits
// for the decision: what is answered is the error, an empty answer is none.
func inject(stage, what string) error {
	if faultsSocket() == "" {
		return nil
	}
	conn, err := net.Dial("unix", faultsSocket()) //nolint:noctx // for tests, which end the process
	if err != nil {
		return nil //nolint:nilerr // The test has ended.
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "%s %s\n", stage, what); err != nil {
		return nil //nolint:nilerr // The test has ended.
	}
	answer, err := io.ReadAll(conn)
	if err != nil || len(answer) == 0 {
		return nil //nolint:nilerr // The test has ended.
	}
	return errors.New(string(answer))
}
