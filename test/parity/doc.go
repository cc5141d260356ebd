// Package parity compares what internal/match says with what the grype command says, field by field, on the same SBOM
// and the same database. It holds tests only.
//
// The command is built from the module in grypecli, at the versions of Grype and Syft that this module uses.
//
// To compare more images, name a folder of archives (OCI or Docker, *.tar) and SBOMs (syft-json, *.json) in
// SCANNER_PARITY_ARCHIVES. To compare with another database, name its folder or archive in SCANNER_PARITY_DATABASE.
package parity
