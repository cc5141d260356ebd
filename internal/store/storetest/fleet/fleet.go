// Package fleet describes a large store without any I/O: which images there are, what they hold, where they run, and what is found in them. Benchmarks fill
// databases with it, and tests compare what a store or a page shows with what the description says.
package fleet

import (
	"cmp"
	"fmt"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	// BasePackages is the number of packages of each base image, and of packages that an image has beside those.
	BasePackages = 100
	// Namespaces is the number of namespaces.
	Namespaces = 50
	// Owners is the number of owners. One workload in Owners+1 has none.
	Owners = 31
	// Container is the name of all containers.
	Container = "main"
	// Kind is the kind of all workloads.
	Kind = "Deployment"
)

// Fleet is a store with so many images, of which every package with an even number has two findings. Images must be a multiple of 2 * Namespaces.
type Fleet struct {
	Images int
	// PerBase is how many images have the same base image, 250 by default.
	PerBase int
}

// Finding is an open finding of a package.
type Finding struct {
	// CVE is the number of the vulnerability.
	CVE     int
	Fixable bool
}

// Bases is the number of base images.
func (f Fleet) Bases() int { return max(2, f.Images/cmp.Or(f.PerBase, 250)) }

// Packages is the number of distinct packages, which are numbered from 1 on. Those of base images come first.
func (f Fleet) Packages() int {
	return f.basePackages() + max(2*f.Images-f.basePackages(), 4*BasePackages)
}

func (f Fleet) basePackages() int { return f.Bases() * BasePackages }

// CVEs is the number of vulnerabilities, which are numbered from 0 on, without WideCVE.
func (f Fleet) CVEs() int { return f.Images * 4 / 5 }

// WideCVE is the number of a vulnerability that is in a package of every base image, so in every image.
func (f Fleet) WideCVE() int { return f.CVEs() }

// Workloads is the number of workloads, each of which runs two images.
func (f Fleet) Workloads() int { return f.Images / 2 }

// Changes is the number of changes that the database brought, Rollouts that of rollouts, Events that of events.
func (f Fleet) Changes() int { return 5 * f.Images }

// Rollouts is the number of rollouts.
func (f Fleet) Rollouts() int { return f.Images }

// Events is the number of events.
func (f Fleet) Events() int { return 5 * f.Images }

// CVE is the ID of a vulnerability.
func CVE(n int) string { return fmt.Sprintf("CVE-2026-%05d", n) }

// Severity is that of a vulnerability.
func Severity(n int) model.Severity { return model.Severities()[n%5] }

// KEV says whether a vulnerability is known to be exploited.
func KEV(n int) bool { return n%100 == 99 }

// Image is an image. They are numbered from 0 on.
func Image(n int) model.ImageKey {
	return model.ImageKey{
		ImageID:  fmt.Sprintf("registry.example/team-%d/image-%d@sha256:%064x", n%31, n%977, n),
		Platform: model.Platform{OS: "linux", Architecture: "amd64"},
	}
}

// Layers are those of an image: four of its base image, and six of its own.
func (f Fleet) Layers(n int) []string {
	layers := make([]string, 10)
	for i := range layers {
		layers[i] = fmt.Sprintf("sha256:%064x", 1000*(n+1)+i)
		if i < 4 {
			layers[i] = fmt.Sprintf("sha256:%064x", 10*((n+1)%f.Bases())+i)
		}
	}
	return layers
}

// Namespace is where an image runs.
func Namespace(image int) string { return fmt.Sprintf("namespace-%d", image%Namespaces) }

// Workload is the name of the workload that runs an image, Owner who is responsible for it, "" if nobody is known to be.
func (f Fleet) Workload(image int) string { return fmt.Sprintf("workload-%d", image%f.Workloads()) }

// Owner is who is responsible for the workload that runs an image, "" if nobody is known to be.
func (f Fleet) Owner(image int) string {
	if owner := image % f.Workloads() % (Owners + 1); owner < Owners {
		return fmt.Sprintf("team-%d", owner)
	}
	return ""
}

// Package is the name, the version and the type of a package. Each base image has another version of the same names.
func (f Fleet) Package(n int) (name, version, kind string) {
	if n <= f.basePackages() {
		return fmt.Sprintf("base-%d", n%BasePackages), fmt.Sprintf("1.%d", n/BasePackages), "deb"
	}
	return fmt.Sprintf("app-%d", n%2000), fmt.Sprintf("2.%d", n/2000), "npm"
}

// Fingerprint is that of a package.
func Fingerprint(n int) string { return fmt.Sprintf("%064x", n) }

// BaseOf is the number before that of the first package that an image has from its base image.
func (f Fleet) BaseOf(image int) int { return (image + 1) % f.Bases() * BasePackages }

// Own is how the packages that an image has beside those of its base image follow from its number and a number from 1 to BasePackages: First + (image *
// Stride + number * Step) % Rest, where images are counted from 1 on.
func (f Fleet) Own() (first, stride, step, rest int) {
	return f.basePackages() + 1, 97, 163, f.Packages() - f.basePackages()
}

// PackagesOf lists the packages of an image.
func (f Fleet) PackagesOf(image int) []int {
	packages := make([]int, 0, 2*BasePackages)
	first, stride, step, rest := f.Own()
	for k := 1; k <= BasePackages; k++ {
		packages = append(packages, f.BaseOf(image)+k, first+((image+1)*stride+k*step)%rest)
	}
	return packages
}

// FindingsOf lists the open findings of a package.
func (f Fleet) FindingsOf(n int) []Finding {
	if n <= f.basePackages() && n%BasePackages == 7 {
		return []Finding{{f.WideCVE(), fixable(n)}}
	}
	if n%2 == 1 {
		return nil
	}
	cve := n * 7919 % f.CVEs()
	return []Finding{{cve, fixable(n)}, {(cve + 3571) % f.CVEs(), fixable(n)}}
}

// ClosedFinding is a vulnerability that a package had before the current database build. Packages with odd numbers have none.
func (f Fleet) ClosedFinding(n int) (cve int, found bool) {
	return (n*7919%f.CVEs() + 1) % f.CVEs(), n%2 == 0
}

func fixable(n int) bool { return n/2%2 == 1 }

// HeldPackages are packages as an image holds them.
func (f Fleet) HeldPackages(numbers ...int) []model.HeldPackage {
	held := make([]model.HeldPackage, 0, len(numbers))
	for _, n := range numbers {
		name, version, kind := f.Package(n)
		held = append(held, model.HeldPackage{Package: model.Package{
			Fingerprint: Fingerprint(n), Name: name, Version: version, Type: kind, PURL: PURL(name, version), Distro: Distro, MatchInput: []byte("{}"),
		}})
	}
	return held
}

// Distro is the distribution of all images.
const Distro = "debian:12"

// PURL is the package URL of a package.
func PURL(name, version string) string { return "pkg:deb/debian/" + name + "@" + version }
