package setup

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for name, test := range map[string]struct {
		container, runtime string
		catalog            CatalogMode
		want, children     int64
		fails              bool
	}{
		"half is for children":  {container: "2147483648", catalog: CatalogInProcess, want: 858993460, children: 1 << 30},
		"a tenth is left":       {container: "2147483648", want: 1932735284},
		"128 MiB are left":      {container: "1073741824", want: 939524096},
		"no limit":              {want: 1 << 40},
		"GOMEMLIMIT goes first": {container: "2147483648", runtime: "1GiB", want: 1 << 40},
		"a quantity":            {container: "2Gi", fails: true},
		"too little":            {container: "200000000", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(1 << 40)
			t.Setenv(memoryLimitEnv, test.container)
			t.Setenv("GOMEMLIMIT", test.runtime)
			children, err := LimitMemory(test.catalog)
			if (err != nil) != test.fails || err != nil && !strings.Contains(err.Error(), "memory limit of the container in bytes, at least 268435456") {
				t.Fatal(err)
			}
			if got := memory(); !test.fails && (got != test.want || children != test.children) {
				t.Errorf("the limit is %d, want %d; %d are for children, want %d", got, test.want, children, test.children)
			}
		})
	}
}

func TestGarbageIsLessThanTheHeap(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv(memoryLimitEnv, "")
	for variable, want := range map[string]int{"200": 100, "": gcPercent} {
		t.Setenv("GOGC", variable)
		debug.SetGCPercent(100)
		if _, err := LimitMemory(CatalogJob); err != nil {
			t.Fatal(err)
		}
		if got := debug.SetGCPercent(100); got != want {
			t.Errorf("with GOGC=%s, garbage is collected when the heap has grown by %d %%, want %d", variable, got, want)
		}
	}
}
