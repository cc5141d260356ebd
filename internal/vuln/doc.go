// Package vuln holds the words that the whole project speaks: images, packages, vulnerabilities,
// findings. It imports the standard library only and does no I/O.
package vuln
