package match

import (
	"fmt"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/syft/syft/cpe"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

type searchKeys map[model.SearchKey]struct{}

func (k searchKeys) add(key model.SearchKey) { k[key] = struct{}{} }

// reader writes down what it is asked for. It belongs to one goroutine.
type reader struct {
	*store
	keys searchKeys
	// refused is the first question that no key stands for, as an error: an answer that depends on it could change unnoticed.
	refused error
}

// begin says where to write.
func (r *reader) begin(keys searchKeys) { r.keys, r.refused = keys, nil }

// GetAffectedPackages implements v6.Reader.
func (r *reader) GetAffectedPackages(spec *v6.PackageSpecifier, options *v6.GetPackageOptions) ([]v6.AffectedPackageHandle, error) {
	r.notePackages(spec, options) // first: Grype changes what it was given
	return r.store.GetAffectedPackages(spec, options)
}

// GetUnaffectedPackages implements v6.Reader. Which symbols of a Go binary are not affected is no question that a unit can
// answer, since namesakes come without them.
func (r *reader) GetUnaffectedPackages(spec *v6.PackageSpecifier, options *v6.GetPackageOptions) ([]v6.UnaffectedPackageHandle, error) {
	r.notePackages(spec, options)
	handles, err := r.store.GetUnaffectedPackages(spec, options)
	for i := range handles {
		if blob := handles[i].BlobValue; blob != nil && blob.Qualifiers != nil && len(blob.Qualifiers.GoImports) > 0 {
			r.refuse("the database contains symbols that are not affected, which this version does not support")
		}
	}
	return handles, err
}

// GetAffectedCPEs implements v6.Reader.
func (r *reader) GetAffectedCPEs(spec *cpe.Attributes, options *v6.GetCPEOptions) ([]v6.AffectedCPEHandle, error) {
	r.noteCPEs(spec, options)
	return r.store.GetAffectedCPEs(spec, options)
}

// GetUnaffectedCPEs implements v6.Reader.
func (r *reader) GetUnaffectedCPEs(spec *cpe.Attributes, options *v6.GetCPEOptions) ([]v6.UnaffectedCPEHandle, error) {
	r.noteCPEs(spec, options)
	return r.store.GetUnaffectedCPEs(spec, options)
}

// GetOperatingSystems implements v6.Reader.
func (r *reader) GetOperatingSystems(spec v6.OSSpecifier) ([]v6.OperatingSystem, error) {
	r.noteSystem(&spec)
	return r.store.GetOperatingSystems(spec)
}

// GetVulnerabilities implements v6.Reader. Vulnerabilities without a package or CPE have no key but by name.
func (r *reader) GetVulnerabilities(spec *v6.VulnerabilitySpecifier, options *v6.GetVulnerabilityOptions) ([]v6.VulnerabilityHandle, error) {
	if spec == nil || spec.Name == "" {
		r.refuse(fmt.Sprintf("a search for vulnerabilities by no name: %s", spec))
	} else {
		r.keys.add(vulndb.VulnerabilityKey(spec.Name))
	}
	return r.store.GetVulnerabilities(spec, options)
}

func (r *reader) refuse(why string) {
	if r.refused == nil {
		r.refused = fmt.Errorf("search the vulnerability database: %s", why)
	}
}

// notePackages notes the most telling part of a question; all parts have to hold for a record to be found.
func (r *reader) notePackages(spec *v6.PackageSpecifier, options *v6.GetPackageOptions) {
	var vulnerabilities v6.VulnerabilitySpecifiers
	if options != nil {
		vulnerabilities = options.Vulnerabilities
		for _, system := range options.OSs {
			r.noteSystem(system)
		}
	}
	named := r.noteVulnerabilities(vulnerabilities)
	switch {
	case spec != nil && spec.Name != "":
		r.keys.add(vulndb.PackageKey(spec.Name))
	case spec != nil && spec.CPE != nil:
		r.noteProduct(spec.CPE, options != nil && options.AllowBroadCPEMatching)
	case !named:
		r.keys.add(vulndb.AnyPackageKey)
	}
}

func (r *reader) noteCPEs(spec *cpe.Attributes, options *v6.GetCPEOptions) {
	named, broad := false, false
	if options != nil {
		named, broad = r.noteVulnerabilities(options.Vulnerabilities), options.AllowBroadCPEMatching
	}
	switch {
	case spec != nil:
		r.noteProduct(spec, broad)
	case !named:
		r.keys.add(vulndb.AnyCPEKey)
	}
}

// noteProduct notes the product of a CPE; without one, a CPE may be found by any other attribute.
func (r *reader) noteProduct(spec *cpe.Attributes, broad bool) {
	if spec.Product == cpe.Any || spec.Product == "*" {
		r.keys.add(vulndb.AnyCPEKey)
		return
	}
	r.keys.add(vulndb.ProductKey(spec.Product))
	if broad {
		r.keys.add(vulndb.ProductKey(cpe.Any))
	}
}

// noteVulnerabilities says whether every one of them is named. Names are noted beside other keys as well: one may stand for
// others (an alias), which no record of a package contains.
func (r *reader) noteVulnerabilities(list v6.VulnerabilitySpecifiers) (named bool) {
	named = len(list) > 0
	for _, v := range list {
		if v.Name == "" {
			named = false
			continue
		}
		r.keys.add(vulndb.VulnerabilityKey(v.Name))
	}
	return named
}

// noteSystem notes the name of an operating system, which may stand for another one. Any and none are no question.
func (r *reader) noteSystem(spec *v6.OSSpecifier) {
	switch {
	case spec == v6.AnyOSSpecified || *spec == *v6.NoOSSpecified:
	case spec.Name == "":
		r.keys.add(vulndb.AnyOSKey)
	default:
		r.keys.add(vulndb.OSKey(spec.Name))
	}
}
