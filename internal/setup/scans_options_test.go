package setup

import (
	"strings"
	"testing"
	"time"
)

func TestScansOptions(t *testing.T) {
	tests := map[string]struct {
		scans Scans
		want  string
	}{
		"defaults":              {Scans{}, ""},
		"all":                   {Scans{Concurrency: 1000, RegistryConcurrency: 1, NodeConcurrency: 1, RecatalogPerHour: 1000, MaxMemory: "512Mi", PriorityClass: "low.priority", Deadline: 24 * time.Hour, AuditInterval: time.Second, MaxRetention: time.Hour}, ""},
		"no scan at all":        {Scans{Concurrency: -1}, "--scan-concurrency=-1: use 1 to 1000"},
		"too many of them":      {Scans{Concurrency: 1001}, "--scan-concurrency=1001"},
		"too many of one":       {Scans{RegistryConcurrency: 1001}, "--scan-registry-concurrency=1001"},
		"too many of a node":    {Scans{NodeConcurrency: 1001}, "--scan-node-concurrency=1001"},
		"too many once more":    {Scans{RecatalogPerHour: 1001}, "--scan-recatalog-per-hour=1001: use 1 to 1000, or 0"},
		"fewer than none":       {Scans{RecatalogPerHour: -1}, "--scan-recatalog-per-hour=-1"},
		"memory without number": {Scans{MaxMemory: "much"}, "--scan-max-memory=much: use a quantity such as 8Gi"},
		"no memory":             {Scans{MaxMemory: "0"}, "--scan-max-memory=0"},
		"a class with spaces":   {Scans{PriorityClass: "low priority"}, "--scan-priority-class=low priority"},
		"no time":               {Scans{Deadline: time.Second}, "--scan-deadline=1s: use 30s to 24h0m0s"},
		"days":                  {Scans{Deadline: 25 * time.Hour}, "--scan-deadline=25h0m0s"},
		"results for a moment":  {Scans{MaxRetention: time.Minute}, "--max-retention=1m0s: use 1h0m0s to 87600h0m0s"},
		"results for centuries": {Scans{MaxRetention: 87601 * time.Hour}, "--max-retention=87601h0m0s"},
		"audits without a stop": {Scans{AuditInterval: time.Millisecond}, "--audit-interval=1ms: use at least 1s"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.scans.validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if s := tt.scans; err == nil && (s.Concurrency == 0 || s.RegistryConcurrency == 0 || s.NodeConcurrency == 0 || s.MaxMemory == "" || s.Deadline == 0 || s.AuditInterval == 0 || s.MaxRetention == 0) {
				t.Errorf("a default is missing in %+v", tt.scans)
			}
		})
	}
	defaults := Scans{}
	if err := defaults.validate(); err != nil || defaults != (Scans{Concurrency: 10, RegistryConcurrency: 4, NodeConcurrency: 2, MaxMemory: "8Gi", Deadline: 15 * time.Minute, AuditInterval: 5 * time.Minute, MaxRetention: 8760 * time.Hour}) {
		t.Errorf("defaults %+v, %v", defaults, err)
	}
}
