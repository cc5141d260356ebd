#!/usr/bin/env bash
# Prints the section of a version in CHANGELOG.md, and fails when there is none.
set -euo pipefail
version=${1:?a version such as v1.2.3}
cd "$(dirname "$0")/../.."
notes=$(awk -v heading="## [${version#v}]" '
	index($0, "## ") == 1 { inside = index($0, heading) == 1; next }
	/^\[[^]]*\]: / { next }
	inside { print }' CHANGELOG.md)
[[ -n "${notes//[[:space:]]/}" ]] || {
	echo "CHANGELOG.md has no section [${version#v}]" >&2
	exit 1
}
echo "$notes"
