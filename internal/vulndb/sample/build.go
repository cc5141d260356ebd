package sample

import (
	"errors"
	"fmt"
	"strings"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"gorm.io/gorm"
)

// Build writes the database into a folder, as archives hold it: without indexes. The file is called
// v6.VulnerabilityDBFileName. The same data give the same content whenever they are built.
func Build(dir string) error {
	document, err := Load()
	if err != nil {
		return err
	}
	store, err := v6.NewWriter(v6.Config{DBDirPath: dir})
	if err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	if err := write(store, document); err != nil {
		return errors.Join(err, store.Close())
	}
	if err := store.Close(); err != nil {
		return fmt.Errorf("finish the database: %w", err)
	}
	return nil
}

func write(store v6.ReadWriter, document *Document) error {
	epssDate, err := parseDate(document.EPSSDate)
	if err != nil {
		return err
	}
	w := writer{store: store, built: document.Built, epssDate: *epssDate, decorated: map[string]bool{}}
	for _, a := range document.Advisories {
		if err := w.advisory(a); err != nil {
			return fmt.Errorf("advisory %s: %w", a.ID, err)
		}
	}
	for _, l := range document.Lifecycles {
		if err := writeLifecycle(store, l); err != nil {
			return fmt.Errorf("lifecycle of %s: %w", l.Of, err)
		}
	}
	return setBuilt(store, document.Built)
}

// writeLifecycle adds the dates to the release, which advisories have written.
func writeLifecycle(store v6.ReadWriter, l Lifecycle) error {
	target, err := parsePlace(l.Of)
	if err != nil {
		return err
	}
	var endOfSupport *time.Time
	if l.EndOfSupport != "" {
		if endOfSupport, err = parseDate(l.EndOfSupport); err != nil {
			return err
		}
	}
	endOfLife, err := parseDate(l.EndOfLife)
	if err != nil {
		return err
	}
	updated, err := store.UpdateOperatingSystemEOL(v6.OSSpecifier{Name: target.distro, MajorVersion: target.major, MinorVersion: target.minor}, endOfLife, endOfSupport)
	if err == nil && updated == 0 {
		err = errors.New("no advisory names the release")
	}
	return err
}

// setBuilt replaces the time of writing, which the writer takes from the clock.
func setBuilt(store v6.ReadWriter, built time.Time) error {
	access, ok := store.(interface{ GetDB() *gorm.DB })
	if !ok {
		return errors.New("the database writer gives no access to its tables")
	}
	if err := access.GetDB().Model(&v6.DBMetadata{}).Where("true").Update("build_timestamp", built.UTC()).Error; err != nil {
		return fmt.Errorf("set the build date: %w", err)
	}
	return nil
}

type writer struct {
	store    v6.ReadWriter
	built    time.Time
	epssDate time.Time
	// decorated holds what is written per CVE: "epss CVE-…", "kev CVE-…", "cwe CVE-…".
	decorated map[string]bool
}

// advisory writes one record per publisher, and for each the packages that it names.
func (w *writer) advisory(a Advisory) error {
	handles := map[string]*v6.VulnerabilityHandle{}
	for _, group := range groupAffected(a.Affected) {
		first := group[0]
		target, err := parsePlace(first.In)
		if err != nil {
			return err
		}
		handle := handles[target.provider]
		if handle == nil {
			handle = w.handle(a, target)
			if err := w.store.AddVulnerabilities(handle); err != nil {
				return err
			}
			handles[target.provider] = handle
		}
		blob := &v6.PackageBlob{CVEs: cves(a)}
		for _, affected := range group {
			blob.Ranges = append(blob.Ranges, target.versionRange(affected))
		}
		if err := w.affected(handle, target, first.Name, blob); err != nil {
			return err
		}
	}
	return w.decorate(a)
}

func (w *writer) affected(handle *v6.VulnerabilityHandle, target place, name string, blob *v6.PackageBlob) error {
	if target.provider == providerNVD {
		vendor, product, ok := strings.Cut(name, ":")
		if !ok {
			return fmt.Errorf("%q is not vendor:product", name)
		}
		return w.store.AddAffectedCPEs(&v6.AffectedCPEHandle{
			VulnerabilityID: handle.ID,
			CPE:             &v6.Cpe{Part: "a", Vendor: vendor, Product: product},
			BlobValue:       blob,
		})
	}
	return w.store.AddAffectedPackages(&v6.AffectedPackageHandle{
		VulnerabilityID: handle.ID,
		OperatingSystem: target.os(),
		Package:         &v6.Package{Ecosystem: target.ecosystem, Name: name},
		BlobValue:       blob,
	})
}

func (w *writer) handle(a Advisory, target place) *v6.VulnerabilityHandle {
	blob := &v6.VulnerabilityBlob{
		ID:          a.ID,
		Description: a.Summary,
		Aliases:     a.Aliases,
		References:  []v6.Reference{{URL: target.reference(a.ID)}},
	}
	if a.CVE() != "" && target.provider != providerNVD {
		blob.References = append(blob.References, v6.Reference{URL: nvdPage + a.CVE()})
	}
	named := v6.Severity{Scheme: v6.SeveritySchemeCHMLN, Value: strings.ToLower(a.Severity), Rank: 1}
	blob.Severities = append(blob.Severities, named)
	if a.CVSS != nil {
		blob.Severities = append(blob.Severities, v6.Severity{
			Scheme: v6.SeveritySchemeCVSS, Value: v6.CVSSSeverity{Vector: a.CVSS.Vector, Version: "3.1"}, Rank: 2,
		})
	}
	built := w.built.UTC()
	return &v6.VulnerabilityHandle{
		Name:       a.ID,
		Status:     v6.VulnerabilityActive,
		ProviderID: target.provider,
		Provider: &v6.Provider{
			ID: target.provider, Version: "1", Processor: "scanner-operator", DateCaptured: &built,
		},
		BlobValue: blob,
	}
}

// decorate writes what is kept per CVE and not per advisory. The first advisory of a CVE that knows something says it.
func (w *writer) decorate(a Advisory) error {
	cve := a.CVE()
	if cve == "" {
		return nil
	}
	if a.EPSS != nil && w.first("epss", cve) {
		if err := w.store.AddEpss(&v6.EpssHandle{
			Cve: cve, Epss: a.EPSS.Score, Percentile: a.EPSS.Percentile, Date: w.epssDate,
		}); err != nil {
			return err
		}
	}
	if len(a.CWEs) > 0 && w.first("cwe", cve) {
		for _, cwe := range a.CWEs {
			if err := w.store.AddCWE(&v6.CWEHandle{CVE: cve, CWE: cwe, Source: "nvd@nist.gov", Type: "Primary"}); err != nil {
				return err
			}
		}
	}
	if a.KEV != nil && w.first("kev", cve) {
		return w.knownExploited(cve, *a.KEV)
	}
	return nil
}

func (w *writer) first(kind, cve string) bool {
	key := kind + " " + cve
	if w.decorated[key] {
		return false
	}
	w.decorated[key] = true
	return true
}

func (w *writer) knownExploited(cve string, kev KnownExploited) error {
	added, err := parseDate(kev.Added)
	if err != nil {
		return err
	}
	due, err := parseDate(kev.Due)
	if err != nil {
		return err
	}
	return w.store.AddKnownExploitedVulnerabilities(&v6.KnownExploitedVulnerabilityHandle{
		Cve: cve,
		BlobValue: &v6.KnownExploitedVulnerabilityBlob{
			Cve: cve, VendorProject: kev.Vendor, Product: kev.Product, DateAdded: added, DueDate: due,
			RequiredAction:             "Update the product or do what its vendor says; stop using it when neither is possible.",
			KnownRansomwareCampaignUse: kev.Ransomware,
		},
	})
}

func cves(a Advisory) []string {
	var out []string
	for _, id := range append([]string{a.ID}, a.Aliases...) {
		if strings.HasPrefix(id, "CVE-") {
			out = append(out, id)
		}
	}
	return out
}

func parseDate(s string) (*time.Time, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return nil, fmt.Errorf("date %q is not YYYY-MM-DD", s)
	}
	return &t, nil
}

// groupAffected puts the ranges of one package together, in the order of the file.
func groupAffected(all []Affected) [][]Affected {
	var out [][]Affected
	index := map[string]int{}
	for _, a := range all {
		key := a.In + "\x00" + a.Name
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], a)
	}
	return out
}
