package setup

import (
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/notify"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/storefile"
)

// A report by mail for a namespace has nothing of other namespaces, also when it is about an owner.
func TestAttachedReports(t *testing.T) {
	db, err := sqlstore.Open(t.Context(), sqlstore.Config{DSN: storefile.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	var coverage []store.ContainerCoverage
	for _, namespace := range []string{"shop", "bank"} {
		coverage = append(coverage, store.ContainerCoverage{
			Workload: store.Workload{Namespace: namespace, Kind: "Deployment", Name: "web-of-" + namespace, Owner: "red"}, Container: "c",
			Image: model.ImageKey{ImageID: "registry.example/" + namespace, Platform: model.Platform{OS: "linux", Architecture: "amd64"}}, Pods: 1, State: "Failed", Reason: "ImageNotFound",
		})
	}
	if err := db.RecordCoverage(t.Context(), "scope", coverage); err != nil {
		t.Fatal(err)
	}
	o := &Operator{store: db, opts: Options{SignIn: SignIn{ExternalURL: "https://scanner.example/"}}}
	for name, c := range map[string]struct {
		about  notify.Scope
		others bool
	}{
		"cluster":           {notify.Scope{}, true},
		"namespace-shop":    {notify.Scope{Namespace: "shop"}, false},
		"owner-red":         {notify.Scope{Owner: "red"}, true},
		"owner-red of shop": {notify.Scope{Namespace: "shop", Owner: "red"}, false},
	} {
		attached, err := o.attachReport(t.Context(), &notify.Report{Scope: c.about, Since: time.Now().Add(-7 * 24 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		file, _, _ := strings.Cut(name, " ")
		if !strings.HasPrefix(attached.Name, "report-"+file+"-") {
			t.Errorf("%s: the file is %s", name, attached.Name)
		}
		page := string(attached.Page)
		if !strings.Contains(page, "web-of-shop") || strings.Contains(page, "web-of-bank") != c.others || !strings.Contains(page, "https://scanner.example") {
			t.Errorf("%s: %s", name, page)
		}
	}
}
