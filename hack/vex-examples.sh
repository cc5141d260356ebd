#!/usr/bin/env bash
# Reads the published examples of VEX documents: those of CSAF, with the tests for its validators, and those of CycloneDX. They are on the internet, and are
# fetched at fixed commits; VEX_EXAMPLES names a directory with copies of both repositories.
set -euo pipefail
cd "$(dirname "$0")/.."

fetch() { # directory, repository, commit, path
	[[ "$(git -C "$1" rev-parse --verify --quiet HEAD 2>/dev/null)" == "$3" ]] && return
	rm -rf "$1"
	git init --quiet "$1"
	git -C "$1" remote add origin "$2"
	git -C "$1" sparse-checkout set "$4"
	git -C "$1" fetch --quiet --depth 1 --filter=blob:none origin "$3" && git -C "$1" -c advice.detachedHead=false checkout --quiet "$3" || {
		rm -rf "$1"
		echo "vex-examples: cannot fetch $2" >&2
		echo "vex-examples: this check needs the internet; VEX_EXAMPLES=/directory names one with the directories csaf and bom-examples" >&2
		exit 1
	}
}

if [[ -z "${VEX_EXAMPLES:-}" ]]; then
	export VEX_EXAMPLES="$PWD/dist/vex-examples"
	fetch "$VEX_EXAMPLES/csaf" https://github.com/oasis-tcs/csaf 27af37f5c9a107abb166e855fa6505fc4ffaade8 csaf_2.0
	fetch "$VEX_EXAMPLES/bom-examples" https://github.com/CycloneDX/bom-examples aaa24717f3101c27ff9006c1caa0fc848c2cb2fd VEX
fi
go test -ldflags=-w -tags vexexamples -count 1 -v -run '^TestPublishedExamples$' ./internal/vex
