// Package sbomgen makes SBOMs for tests and benchmarks: what it makes follows from a seed and a vulnerability database
// alone, so that a number is enough to repeat a failure.
//
// A Pool is what a database knows: names, operating systems, and the versions at which constraints begin and end. A
// Generator draws from it. Generator.SBOM makes one odd image per index, full of what goes wrong: duplicates, namesakes, owners
// of owners, versions that no parser likes. Generator.Fleet makes the images of a cluster, as alike as real ones are.
package sbomgen
