#!/usr/bin/env bash
# Runs make targets one after the other and prints the wall and CPU seconds of each: steps.sh NAME TARGET...
# TARGET+BESIDE runs a second target beside the first, at the lowest priority, and prints its output afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
shift

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap '[[ -z "$group" ]] || kill -- "-$group" 2>/dev/null || true; exit 130' INT TERM
# The process group of the target that runs beside another one.
group=
TIMEFORMAT='%R %U %S'
table=$(printf '%-20s %8s %8s' step 'wall s' 'CPU s')

# run runs a target with a command before it. What the target prints keeps its way; only the figures of time go to a file.
run() {
	local step=$1 status=0
	shift
	{ time "$@" make "$step" >&3 2>&4; } 3>&1 4>&2 2>"$work/$step.time" || status=$?
	return "$status"
}

# finish adds the figures of a target to the table, and ends all if it failed.
finish() {
	local step=$1 status=$2
	table+=$'\n'$(awk -v step="$step" '{ printf "%-20s %8.0f %8.0f", step, $1, $2 + $3 }' "$work/$step.time")
	if ((status != 0)); then
		printf '\n%s\n' "$table"
		printf 'FAIL\tmake %s: the step %s failed\n' "$name" "$step" >&2
		exit "$status"
	fi
	printf '(%s: %s)\n' "$step" "$(awk '{ printf "%.0f s, %.0f s CPU", $1, $2 + $3 }' "$work/$step.time")"
}

for steps in "$@"; do
	step=${steps%+*} beside=
	if [[ "$steps" == *+* ]]; then
		beside=${steps#*+}
		set -m
		run "$beside" nice -n 19 >"$work/$beside.log" 2>&1 &
		set +m
		group=$!
	fi
	printf '\n\033[1m=== %s\033[0m\n' "$step"
	status=0
	run "$step" env || status=$?
	if [[ -n "$beside" ]]; then
		other=0
		wait "$group" || other=$?
		group=
		printf '\n\033[1m=== %s (ran beside %s)\033[0m\n' "$beside" "$step"
		cat "$work/$beside.log"
		# The first failure is reported; the output of both has been printed.
		((status != 0)) || finish "$beside" "$other"
	fi
	finish "$step" "$status"
done
printf '\n%s\n' "$table"
printf '\nok  \tmake %s\t%ds\n' "$name" "$SECONDS"
