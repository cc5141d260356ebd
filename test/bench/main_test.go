package bench

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// phaseVariable is the environment variable that makes this program run one phase.
const phaseVariable = "SCANNER_BENCH_PHASE"

// phaseTimeout bounds one phase.
const phaseTimeout = 30 * time.Minute

func TestMain(m *testing.M) {
	if text := os.Getenv(phaseVariable); text != "" {
		ctx, cancel := context.WithTimeout(context.Background(), phaseTimeout)
		err := runPhase(ctx, text)
		cancel()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	table.print(os.Stdout)
	os.Exit(code)
}
