package match

import (
	"fmt"
	"slices"
	"strings"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/syft/syft/cpe"
)

// maxRecords bounds the cached records of packages and CPEs, of one or two KB each.
const maxRecords = 8_000

// GetAffectedPackages implements v6.Reader.
func (s *store) GetAffectedPackages(spec *v6.PackageSpecifier, options *v6.GetPackageOptions) ([]v6.AffectedPackageHandle, error) {
	if s.content.lacksPackages(s.content.packages, spec, options) {
		return nil, nil
	}
	return cachedQuery(s.affectedPackages, packageQueryKey(spec, options), func() ([]v6.AffectedPackageHandle, error) {
		return s.Reader.GetAffectedPackages(spec, options)
	})
}

// GetUnaffectedPackages implements v6.Reader.
func (s *store) GetUnaffectedPackages(spec *v6.PackageSpecifier, options *v6.GetPackageOptions) ([]v6.UnaffectedPackageHandle, error) {
	if s.content.lacksPackages(s.content.unaffectedPackages, spec, options) {
		return nil, nil
	}
	return cachedQuery(s.unaffectedPackages, packageQueryKey(spec, options), func() ([]v6.UnaffectedPackageHandle, error) {
		return s.Reader.GetUnaffectedPackages(spec, options)
	})
}

// GetAffectedCPEs implements v6.Reader.
func (s *store) GetAffectedCPEs(spec *cpe.Attributes, options *v6.GetCPEOptions) ([]v6.AffectedCPEHandle, error) {
	if options != nil && s.content.lacksProduct(s.content.products, spec, options.AllowBroadCPEMatching) {
		return nil, nil
	}
	return cachedQuery(s.affectedCPEs, cpeQueryKey(spec, options), func() ([]v6.AffectedCPEHandle, error) {
		return s.Reader.GetAffectedCPEs(spec, options)
	})
}

// GetUnaffectedCPEs implements v6.Reader.
func (s *store) GetUnaffectedCPEs(spec *cpe.Attributes, options *v6.GetCPEOptions) ([]v6.UnaffectedCPEHandle, error) {
	if options != nil && s.content.lacksProduct(s.content.unaffectedProducts, spec, options.AllowBroadCPEMatching) {
		return nil, nil
	}
	return cachedQuery(s.unaffectedCPEs, cpeQueryKey(spec, options), func() ([]v6.UnaffectedCPEHandle, error) {
		return s.Reader.GetUnaffectedCPEs(spec, options)
	})
}

// cachedQuery caches the results of queries. Grype modifies the records that it gets, but not what they point to, hence the copy.
func cachedQuery[T any](known *cache[string, []T], key string, read func() ([]T, error)) ([]T, error) {
	if answer, ok := known.get(key); ok {
		return slices.Clone(answer), nil
	}
	answer, err := read()
	if err != nil {
		return nil, err
	}
	known.put(key, slices.Clone(answer), 1+len(answer))
	return answer, nil
}

// packageQueryKey and cpeQueryKey encode all parameters of a query, so that different queries have different keys.
func packageQueryKey(spec *v6.PackageSpecifier, options *v6.GetPackageOptions) string {
	var b strings.Builder
	if spec == nil {
		b.WriteString("any")
	} else {
		fmt.Fprintf(&b, "%q %q", spec.Name, spec.Ecosystem)
		writeCPE(&b, spec.CPE)
	}
	if options != nil {
		o := *options
		o.OSs, o.Vulnerabilities = nil, nil
		fmt.Fprintf(&b, " %+v %d", o, len(options.OSs))
		for _, system := range options.OSs {
			if system == nil {
				b.WriteString(" any")
			} else {
				fmt.Fprintf(&b, " %#v", *system)
			}
		}
		writeVulnerabilities(&b, options.Vulnerabilities)
	}
	return b.String()
}

func cpeQueryKey(spec *cpe.Attributes, options *v6.GetCPEOptions) string {
	var b strings.Builder
	writeCPE(&b, spec)
	if options != nil {
		o := *options
		o.Vulnerabilities = nil
		fmt.Fprintf(&b, " %+v", o)
		writeVulnerabilities(&b, options.Vulnerabilities)
	}
	return b.String()
}

// writeCPE leaves out the version and the update, for which Grype does not ask the database.
func writeCPE(b *strings.Builder, c *cpe.Attributes) {
	if c == nil {
		b.WriteString(" any")
		return
	}
	fmt.Fprintf(b, " %q", []string{
		c.Part, c.Vendor, c.Product, c.Edition, c.Language, c.SWEdition, c.TargetSW, c.TargetHW, c.Other,
	})
}

func writeVulnerabilities(b *strings.Builder, list v6.VulnerabilitySpecifiers) {
	for _, v := range list {
		fmt.Fprintf(b, " %#v", v)
	}
}
