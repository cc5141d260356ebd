#!/usr/bin/env bash
# Runs make targets one after the other and prints the wall and CPU seconds of each: steps.sh NAME TARGET...
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
shift

figures=$(mktemp)
trap 'rm -f "$figures"' EXIT
TIMEFORMAT='%R %U %S'
table=$(printf '%-20s %8s %8s' step 'wall s' 'CPU s')
summary() { printf '\n%s\n' "$table"; }

for step in "$@"; do
	printf '\n\033[1m=== %s\033[0m\n' "$step"
	status=0
	# What the step prints keeps its way; only the figures of time go to the file.
	{ time make "$step" >&3 2>&4; } 3>&1 4>&2 2>"$figures" || status=$?
	row=$(awk -v step="$step" '{ printf "%-20s %8.0f %8.0f", step, $1, $2 + $3 }' "$figures")
	table+=$'\n'$row
	if ((status != 0)); then
		summary
		printf 'FAIL\tmake %s: the step %s failed\n' "$name" "$step" >&2
		exit "$status"
	fi
	printf '(%s: %s)\n' "$step" "$(awk '{ printf "%.0f s, %.0f s CPU", $1, $2 + $3 }' "$figures")"
done
summary
printf '\nok  \tmake %s\t%ds\n' "$name" "$SECONDS"
