// Package policy compiles and evaluates the expressions of VulnerabilityPolicies, and computes until when findings are due. It does no I/O.
package policy
