package policy

// Finding is what expressions see of a finding: facts that are the same in each image that holds the package.
type Finding struct {
	// ID is the ID of the vulnerability, such as "CVE-2024-3094".
	ID string `cel:"id"`
	// Severity is Critical, High, Medium, Low, Negligible or Unknown.
	Severity string `cel:"severity"`
	// KEV says that the vulnerability is known to be exploited.
	KEV bool `cel:"kev"`
	// EPSS is a probability from 0 to 1, Risk is from 0 to 100.
	EPSS float64 `cel:"epss"`
	Risk float64 `cel:"risk"`
	// Fixable says that a fixed version is known; FixState is fixed, not-fixed, wont-fix or unknown.
	Fixable  bool    `cel:"fixable"`
	FixState string  `cel:"fixState"`
	Package  Package `cel:"package"`
}

// Package is what expressions see of a package: what its fingerprint covers, so that the scan of one image decides nothing about another one.
type Package struct {
	Type    string `cel:"type"`
	Name    string `cel:"name"`
	Version string `cel:"version"`
	// Distro is the distribution of the package, such as "debian:12", or "".
	Distro string `cel:"distro"`
}

// Image is what expressions see of an image.
type Image struct {
	// ID is the image ID with the digest, such as "registry.example.com/shop@sha256:…".
	ID         string `cel:"id"`
	Repository string `cel:"repository"`
	// Distro is the distribution of the image, "" when it is not known.
	Distro string `cel:"distro"`
}

// Workload is what expressions see of a workload that runs an image.
type Workload struct {
	Namespace string `cel:"namespace"`
	Kind      string `cel:"kind"`
	Name      string `cel:"name"`
	// Owner is the one that ownership.keys finds, or "".
	Owner string `cel:"owner"`
}
