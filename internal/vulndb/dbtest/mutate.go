package dbtest

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/glebarez/sqlite"
	"github.com/spf13/afero"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// Kind is a sort of change of a database.
type Kind string

// The kinds. Those of packages change one record of each package that is chosen, those of CPEs one of each product.
const (
	// Ranges makes a record of a package affect nearly all versions or none.
	Ranges Kind = "ranges"
	// Fixes names another version that fixes a package.
	Fixes Kind = "fixes"
	// Remove removes a record of a package, Add gives a package a vulnerability of another one.
	Remove Kind = "remove"
	Add    Kind = "add"
	// Unaffected says that a package is not affected by a vulnerability that it has a record of.
	Unaffected Kind = "unaffected"
	// Imports makes a record of a Go module name an import path of it, "…/parse", and a symbol, "Parse".
	Imports Kind = "imports"
	// CPERanges, RemoveCPEs, AddCPEs and UnaffectedCPEs do so for records of CPEs.
	CPERanges      Kind = "cpe ranges"
	RemoveCPEs     Kind = "remove CPEs"
	AddCPEs        Kind = "add CPEs"
	UnaffectedCPEs Kind = "unaffected CPEs"
	// PackageCPEs gives a package a CPE.
	PackageCPEs Kind = "package CPEs"
	// Severities makes a vulnerability critical, Descriptions describes it otherwise, Withdraw withdraws it, with all packages
	// that have it.
	Severities   Kind = "severities"
	Descriptions Kind = "descriptions"
	Withdraw     Kind = "withdraw"
	// EPSS gives a CVE another probability, and all of them another date; AddKEV and RemoveKEV change what is known to be
	// exploited; CWEs adds a weakness.
	EPSS      Kind = "epss"
	AddKEV    Kind = "add KEV"
	RemoveKEV Kind = "remove KEV"
	CWEs      Kind = "cwes"
	// EPSSForAll gives a probability to every CVE that has none, EPSSDrift changes all of them a little, as every day does. Only
	// and Fraction do not restrict these two.
	EPSSForAll Kind = "epss for all"
	EPSSDrift  Kind = "epss drift"
	// OperatingSystems adds releases, Overrides makes one operating system stand for another.
	OperatingSystems Kind = "operating systems"
	Overrides        Kind = "overrides"
	// MoveEndOfLife moves the end of life of all releases by a year. Only and Fraction do not restrict it.
	MoveEndOfLife Kind = "move end of life"
	// Renumber gives all rows other IDs and changes nothing else.
	Renumber Kind = "renumber"
)

// Kinds are all kinds that change something that can be asked for.
func Kinds() []Kind {
	return []Kind{
		Ranges, Fixes, Remove, Add, Unaffected, Imports, CPERanges, RemoveCPEs, AddCPEs, UnaffectedCPEs, PackageCPEs, Severities, Descriptions,
		Withdraw, EPSS, AddKEV, RemoveKEV, CWEs, OperatingSystems, Overrides,
	}
}

// Change is one sort of change.
type Change struct {
	Kind Kind
	// Fraction is the part of all packages, products, vulnerabilities and so on that are changed, 0 to 1; at least one is, when
	// there is any.
	Fraction float64
	// Only restricts changes of packages, CPEs and vulnerabilities to packages and products with these names; nil does not.
	Only []string
}

// Fraction is a mixture of changes of about this part of all packages, as a later build has them.
func Fraction(part float64) []Change {
	return []Change{
		{Kind: Ranges, Fraction: part / 2}, {Kind: Fixes, Fraction: part / 4}, {Kind: Add, Fraction: part / 8},
		{Kind: Remove, Fraction: part / 8},
	}
}

// Mutate copies an installed database, changes the copy, and returns it as a build of a day later. Equal seeds choose the
// same. It can be imported into a library, where it keeps its ID.
func Mutate(tb testing.TB, installed vulndb.Installed, seed uint64, changes ...Change) vulndb.Installed {
	tb.Helper()
	out := vulndb.Installed{Dir: filepath.Join(tb.TempDir(), "build"), Build: installed.Build}
	if err := os.CopyFS(out.Dir, os.DirFS(installed.Dir)); err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(out.SQLiteDir(), v6.VulnerabilityDBFileName)
	db, err := sql.Open(sqlite.DriverName, file+"?_pragma=journal_mode(MEMORY)&_pragma=synchronous(OFF)&_pragma=foreign_keys(OFF)")
	if err != nil {
		tb.Fatal(err)
	}
	m := &mutation{TB: tb, random: rand.New(rand.NewPCG(seed, 0))}
	if m.tx, err = db.BeginTx(tb.Context(), nil); err != nil {
		tb.Fatal(err)
	}
	for _, change := range changes {
		m.apply(change)
	}
	out.Build.Built = installed.Build.Built.Add(24 * time.Hour)
	out.InstalledAt = installed.InstalledAt.Add(24 * time.Hour)
	m.exec("UPDATE db_metadata SET build_timestamp = ?", out.Build.Built.UTC())
	if err := m.tx.Commit(); err != nil {
		tb.Fatal(err)
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
	return sealed(tb, out)
}

// sealed gives a database whose file was changed the checksum and the ID that follow from it.
func sealed(tb testing.TB, installed vulndb.Installed) vulndb.Installed {
	tb.Helper()
	if _, err := v6.WriteImportMetadata(afero.NewOsFs(), installed.SQLiteDir(), "test"); err != nil {
		tb.Fatal(err)
	}
	installed.Build.ID = fileID(tb, filepath.Join(installed.SQLiteDir(), v6.VulnerabilityDBFileName))
	installed.Build.Source = model.DatabaseSourceImported
	return installed
}

func fileID(tb testing.TB, name string) string {
	tb.Helper()
	f, err := os.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		tb.Fatal(err)
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}
