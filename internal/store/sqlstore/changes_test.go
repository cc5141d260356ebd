package sqlstore

import (
	"fmt"
	"testing"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestChangesTakeFewStatements reads pages of changes about different packages: the number of statements is the same for all.
func TestChangesTakeFewStatements(t *testing.T) {
	const packages = 60
	s := openAt(t, migrated(t))
	if _, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "build"}, "engine", false); err != nil {
		t.Fatal(err)
	}
	held := make([]model.HeldPackage, packages)
	for n := range held {
		held[n].Package = model.Package{Fingerprint: fmt.Sprintf("%064x", n), Name: fmt.Sprint("p", n), Version: "1", Type: "deb"}
	}
	if _, err := s.StorePackages(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	err := s.write(t.Context(), "fill", func(tx *txn) error {
		return tx.Execute(`INSERT INTO finding_changes (generation, package_pk, vulnerability_id, namespace, severity, kev, kind, reasons, before_side, after_side)
			SELECT g.number, p.id, 'CVE-1', 'n', 5, 0, 0, '', '', '' FROM packages p CROSS JOIN generations g`)
	})
	if err != nil {
		t.Fatal(err)
	}
	statements := 0
	count := func(*gorm.DB) { statements++ }
	if err := s.db.Reader().Callback().Query().Before("gorm:query").Register("count", count); err != nil {
		t.Fatal(err)
	}
	taken := func(size int) int {
		statements = 0
		page, err := s.Changes(t.Context(), store.AllNamespaces(), store.ChangeQuery{Page: store.Page{Size: size}})
		if err != nil || len(page.Changes) != size || page.Total != packages {
			t.Fatalf("got %d of %d changes, %v", len(page.Changes), page.Total, err)
		}
		return statements
	}
	if one, all := taken(1), taken(packages); one == 0 || all != one {
		t.Errorf("%d statements for a change, %d for %d changes", one, all, packages)
	}
}
