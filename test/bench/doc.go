// Package bench measures what the operator costs against what the grype command costs, and against the bounds that the
// operator promises. It holds benchmarks only; "make bench" runs them and prints a table at the end.
//
// Every phase runs in a process of its own on files that the phase before left, so that its CPU time and the peak of its
// memory are all its own, the start of the process included.
//
// SCANNER_BENCH_IMAGES names the sizes of the fleets (default "1000,10000"). SCANNER_BENCH_PROFILES names a folder for CPU
// and heap profiles of the phases.
package bench
