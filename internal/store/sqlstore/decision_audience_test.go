package sqlstore

import (
	"fmt"
	"runtime"
	"testing"
)

// TestAudiencesTakeLittleMemory expects that who is told about decisions of the cluster takes less than a byte for each decision and namespace, since thousands of
// decisions may match in thousands of namespaces. It does not run beside other tests, which allocate, too.
func TestAudiencesTakeLittleMemory(t *testing.T) { //nolint:paralleltest // It measures what is allocated.
	const decisions, namespaces = 4000, 1000
	names := make([]string, namespaces)
	for i := range names {
		names[i] = fmt.Sprint("namespace-", i)
	}
	s := openJoining(t, Config{DSN: migrated(t)}, names...)
	s.decide(t, cluster("one", "CVE-0"))
	err := s.write(t.Context(), "tell", func(tx *txn) error {
		var findings []int64
		if err := tx.Raw("SELECT finding_id FROM decision_findings").Scan(&findings).Error; err != nil {
			return err
		}
		matched, keys := map[int64][]int64{}, map[int64]int64{}
		for id := range int64(decisions) {
			matched[id], keys[id] = findings, id
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		audiences, err := audiencesOf(tx, matched, keys)
		runtime.ReadMemStats(&after)
		for id := range keys {
			if told := audiences[id].size(); told != namespaces {
				t.Fatalf("decision %d is told in %d namespaces, want %d", id, told, namespaces)
			}
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > decisions*namespaces {
			t.Errorf("%d decisions in %d namespaces took %d bytes, want at most one for each", decisions, namespaces, took)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
