// Package vex reads VEX documents (Vulnerability Exploitability eXchange) in the formats OpenVEX, CSAF and CycloneDX, says what
// their statements mean for findings, and writes decisions about findings in the formats OpenVEX and CycloneDX.
//
// [Read] turns a document of any format into a [Document] with [Statement] values, whose exported fields are all that decides what they
// match: IDs of vulnerabilities, package URLs, CPEs, digests and versions. A [Set] holds documents, finds the statements that match a
// finding and picks the one that decides, whatever the order of the documents.
//
// [Write] states decisions about findings of images, in documents that [Read] accepts and whose statements give the same decisions:
// [Statement.Decision].
//
// Documents are not trusted: [Limits] bound what is read, and what cannot be identified matches nothing. No document makes a finding
// appear.
package vex
