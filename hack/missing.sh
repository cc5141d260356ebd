#!/usr/bin/env bash
# Says that something is missing on this machine: a notice, or with CI=true a failure.
set -euo pipefail
if [[ "${CI:-}" == true ]]; then
	echo "missing, and CI=true needs it: $1" >&2
	exit 1
fi
echo "skipped, because this is missing: $1" >&2
