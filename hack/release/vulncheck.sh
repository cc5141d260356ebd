#!/usr/bin/env bash
# Runs govulncheck on the operator. Its database is on the internet; GOVULNDB names a mirror, also as file:///directory.
set -euo pipefail
cd "$(dirname "$0")/../.."
database=${GOVULNDB:-https://vuln.go.dev}

curl --fail --silent --show-error --location --max-time 30 --output /dev/null "$database/index/db.json" || {
	echo "vulncheck: cannot read the Go vulnerability database at $database" >&2
	echo "vulncheck: this check needs the internet; GOVULNDB=https://mirror or GOVULNDB=file:///directory names a copy" >&2
	exit 1
}
go run -C hack/tools/vuln golang.org/x/vuln/cmd/govulncheck -C "$PWD" -db "$database" ./cmd/... ./internal/... ./api/...
