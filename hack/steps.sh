#!/usr/bin/env bash
# Runs make targets and prints the wall and CPU seconds of each: steps.sh NAME STEP... [-- [nice] STEP...]...
# The steps before the first "--" run one after the other. Each further group runs after them, its steps one after the other too,
# but concurrently with the other groups if there is more than one processor. A step A+B is two that run concurrently. A group that begins
# with "nice" has a lower priority: it gets what the others leave, and at least a tenth. After a failure, no other step starts.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
shift

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
TIMEFORMAT='%R %U %S'

# run STEP [PREFIX] runs a step, with a prefix in front of each line that it prints.
run() {
	local step=$1 prefix=${2:-} status=0 figures
	printf '\n\033[1m=== %s\033[0m\n' "$step"
	# What the step prints keeps its way, and is kept if it has a prefix; the figures of time go to a file.
	if [[ -z "$prefix" ]]; then
		{ time make "$step" >&3 2>&4; } 3>&1 4>&2 2>"$results/time-$step" || status=$?
	else
		{ time make "$step" 2>&1 | tee "$results/log-$step" | sed -u "s/^/$prefix/" >&3; } 3>&1 2>"$results/time-$step" || status=$?
	fi
	figures=$(tail -n 1 "$results/time-$step")
	awk -v step="$step" '{ printf "%-20s %8.0f %8.0f\n", step, $1, $2 + $3 }' <<<"$figures" >>"$results/rows"
	if ((status != 0)); then
		echo "$step" >>"$results/failed"
		printf 'FAIL: %s\n' "$step" >&2
		return 1
	fi
	awk -v step="$step" '{ printf "(%s: %.0f s, %.0f s CPU)\n", step, $1, $2 + $3 }' <<<"$figures"
}

# group PREFIX STEP... runs steps until one has failed, also in another group.
group() {
	local with_prefix=$1 step part
	shift
	if [[ "$1" == nice ]]; then
		shift
		[[ -z "$with_prefix" ]] || renice -n 10 -p "$BASHPID" >/dev/null
	fi
	for step in "$@"; do
		[[ ! -e "$results/failed" ]] || return 0
		if ((processors == 1)) || [[ "$step" != *+* ]]; then
			for part in ${step//+/ }; do run "$part" "${with_prefix:+$part: }" || return 0; done
		else
			for part in ${step//+/ }; do run "$part" "$part: " & done
			wait
		fi
	done
}

processors=$(getconf _NPROCESSORS_ONLN)
groups=("")
for argument in "$@"; do
	if [[ "$argument" == -- ]]; then groups+=(""); else groups[-1]+=" $argument"; fi
done
for i in "${!groups[@]}"; do
	read -ra steps <<<"${groups[i]}"
	if ((i > 0 && ${#groups[@]} > 2 && processors > 1)); then
		group prefix "${steps[@]}" &
	else
		group "" "${steps[@]}"
	fi
done
wait

printf '\n%-20s %8s %8s\n' step 'wall s' 'CPU s'
cat "$results/rows"
if [[ -e "$results/failed" ]]; then
	while read -r step; do
		# What failed can be far above, between the output of other steps.
		if [[ -e "$results/log-$step" ]]; then
			printf '\nWhat the step %s printed about failures:\n' "$step" >&2
			grep -aE -- '--- FAIL|^FAIL|^make.*\*\*\*' "$results/log-$step" | head -n 40 >&2 || true
			echo >&2
			grep -aE -m 20 -A 10 -- '--- FAIL|^FAIL|^panic:|^fatal error:|WARNING: DATA RACE|^ +[0-9]+\) \[|^make.*\*\*\*' "$results/log-$step" | head -n 100 >&2 || true
		fi
		printf 'FAIL\tmake %s: the step %s failed\n' "$name" "$step" >&2
	done <"$results/failed"
	exit 1
fi
printf '\nok  \tmake %s\t%ds\n' "$name" "$SECONDS"
