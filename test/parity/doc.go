// Package parity compares what internal/match says with what the grype command says, field by field, on the same SBOM
// and the same database. It holds tests only.
//
// The command is built from the module in grypecli, at the versions of Grype and Syft that this module uses. TestParity runs
// it on SBOMs and images that have a name. The program beside it, Grype's own code that takes many SBOMs at a time, has to say
// the same of them, and stands in for the command in TestRandomParity.
//
// What only chance decides in Grype is not compared: the order of matches of packages that have name, version, type and
// place in common.
//
// To compare more images, name a folder of archives (OCI or Docker, *.tar) and SBOMs (syft-json, *.json) in
// SCANNER_PARITY_ARCHIVES. To compare with another database, name its folder or archive in SCANNER_PARITY_DATABASE.
package parity
