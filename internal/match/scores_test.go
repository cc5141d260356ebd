package match_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// scored is an image whose vulnerabilities have all there is: several CVEs, none, KEV entries.
func scored() *image {
	return (&image{release: debian11}).add(deb("libc6", "2.31-13+deb11u6", "glibc"), "/s").
		add(deb("openssl", "1.1.1k-1", ""), "/s").add(npm("lodash", "4.17.20"), "/a").
		add(javaArchive("org.apache.logging.log4j", "log4j-core", "2.14.1"), "/j").
		add(binary("nginx", "1.20.0", "f5", "nginx"), "/usr/sbin/nginx")
}

func vulnerabilitiesOf(t *testing.T, installed vulndb.Installed) []model.Vulnerability {
	t.Helper()
	var out []model.Vulnerability
	catalog, result := matchImage(t, open(t, installed), scored())
	for _, f := range match.Findings(catalog, result) {
		out = append(out, f.Vulnerability)
	}
	return out
}

func TestScores(t *testing.T) {
	from := dbtest.Sample(t)
	before := vulnerabilitiesOf(t, from)
	kev := func(from string) string {
		return `INSERT INTO known_exploited_vulnerability_handles (cve, blob_id)
			SELECT '` + from + `', blob_id FROM known_exploited_vulnerability_handles LIMIT 1`
	}
	tests := []struct {
		name       string
		statements []string
		changes    bool
	}{
		{"nothing", []string{"UPDATE blobs SET value = value"}, false},
		{"EPSS", []string{"UPDATE epss_handles SET epss = epss / 2, percentile = 0.5"}, true},
		{"the date of EPSS", []string{"UPDATE epss_metadata SET date = '2030-01-02 00:00:00+00:00'"}, true},
		{"no EPSS", []string{"DELETE FROM epss_handles"}, true},
		{"a first figure", []string{"INSERT INTO epss_handles (id, cve, epss, percentile) VALUES (-1, 'cve-2023-4911', 0.01, 0.02)"}, true},
		{"no KEV", []string{"DELETE FROM known_exploited_vulnerability_handles"}, true},
		{"more KEV", []string{kev("cve-2021-23017"), kev("CVE-2021-23337"), kev("CVE-2023-4911")}, true},
		{"CWEs", []string{
			"DELETE FROM cwe_handles WHERE cve = 'CVE-2023-4911'",
			"INSERT INTO cwe_handles (cve, cwe, source, type) VALUES ('cve-2023-4911', 'CWE-1', 's', 'Primary'), ('CVE-2023-4911', 'CWE-1', 't', 'Secondary')",
		}, true},
		{"an old schema", []string{"UPDATE db_metadata SET revision = 0, addition = 1"}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			to := dbtest.Sample(t)
			change(t, to, test.statements...)
			want := vulnerabilitiesOf(t, to)
			got := append([]model.Vulnerability(nil), before...)
			if err := open(t, to).Scores(t.Context(), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("scores (-fresh match +got):\n%s", diff)
			}
			for _, v := range got {
				if test.name == "an old schema" && (v.EPSS != nil || v.CWEs != nil) {
					t.Errorf("%s has what databases of that schema do not tell: %+v", v.ID, v)
				}
			}
			if changed := !cmp.Equal(before, want); changed != test.changes {
				t.Errorf("a fresh match says something else: %t, want %t", changed, test.changes)
			}
		})
	}
}

// More than one query takes at a time.
func TestScoresOfMany(t *testing.T) {
	database := openSample(t)
	catalog, result := matchImage(t, database, scored())
	known := match.Findings(catalog, result)
	var want, got []model.Vulnerability
	for i := range 3000 {
		v := known[i%len(known)].Vulnerability
		want = append(want, v)
		v.EPSS, v.KEV, v.CWEs, v.Risk = nil, nil, nil, -1
		got = append(got, v)
		other := model.Vulnerability{ID: fmt.Sprint(i), CVEs: []string{fmt.Sprintf("CVE-1999-%d", i)}}
		want, got = append(want, other), append(got, other)
	}
	if err := database.Scores(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

func TestScoresEnd(t *testing.T) {
	installed := dbtest.Sample(t)
	database := open(t, installed)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := database.Scores(ctx, make([]model.Vulnerability, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := database.Close(); err != nil {
		t.Fatal(err)
	}
	if err := database.Scores(t.Context(), nil); !errors.Is(err, match.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
