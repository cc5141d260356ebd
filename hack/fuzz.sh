#!/usr/bin/env bash
# Runs every fuzz target of the main module for a fixed time: FUZZTIME each.
set -euo pipefail
cd "$(dirname "$0")/.."

fuzztime=${FUZZTIME:-10s}
grep -rlE --include='*_test.go' '^func Fuzz[A-Z]' api cmd internal test | sort | while read -r file; do
	sed -nE 's/^func (Fuzz[A-Za-z0-9_]+)\(.*/\1/p' "$file" | while read -r target; do
		echo "$target in $(dirname "$file")"
		# Every worker is a process that would start an API server of its own.
		env -u KUBEBUILDER_ASSETS go test -run '^$' -fuzz "^${target}\$" -fuzztime "$fuzztime" "./$(dirname "$file")" </dev/null
	done
done
