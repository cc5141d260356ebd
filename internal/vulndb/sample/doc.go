// Package sample makes a small Grype database from advisories that are kept in this repository, with Grype's own writer,
// so that the scanner can be tried and tested where no other database can be had.
package sample
