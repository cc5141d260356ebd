#!/usr/bin/env bash
# Measures what a newcomer waits for: "make run" up to the first scanned image, and "make test", in a fresh clone of HEAD
# with a private HOME and empty caches of modules, builds, npm and tools. Arguments: run, test (default: both).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
what=("$@")
((${#what[@]} > 0)) || what=(run test)

work=$(mktemp -d "${TMPDIR:-/tmp}/scanner-operator-cold.XXXXXX")
cleanup() {
	# Go's cache of modules is read-only.
	chmod -R u+w "$work"
	rm -rf "$work"
}
trap cleanup EXIT

# Where packages come from is a setting of the machine and not a cache.
export GOPROXY GOSUMDB NPM_CONFIG_USERCONFIG
GOPROXY=$(go env GOPROXY) GOSUMDB=$(go env GOSUMDB) NPM_CONFIG_USERCONFIG=${NPM_CONFIG_USERCONFIG:-$HOME/.npmrc}
unset GOPATH GOCACHE GOMODCACHE GOBIN XDG_CACHE_HOME XDG_STATE_HOME XDG_CONFIG_HOME SCANNER_OPERATOR_CACHE KUBECONFIG npm_config_cache

TIMEFORMAT='%R %U %S'
table=$(printf '%-20s %8s %8s' 'cold' 'wall s' 'CPU s')
failed=0
for part in "${what[@]}"; do
	home=$work/$part
	mkdir -p "$home"
	git clone --quiet --no-hardlinks "$root" "$home/scanner-operator"
	# make test prints a table of its own steps.
	case "$part" in
	run) steps=(ui build "run RUN_ARGS=-until=first-result") ;;
	test) steps=(test) ;;
	*) echo "cold.sh: unknown part $part: run or test" >&2 && exit 2 ;;
	esac
	for step in "${steps[@]}"; do
		status=0
		# shellcheck disable=SC2086 # A step is a target and its variables.
		{ time HOME=$home make -C "$home/scanner-operator" $step >&3 2>&4; } 3>&1 4>&2 2>"$work/figures" || status=$?
		table+=$'\n'$(awk -v step="make ${step%% *}" '{ printf "%-20s %8.0f %8.0f", step, $1, $2 + $3 }' "$work/figures")
		((status == 0)) || { failed=$status && break; }
	done
done
printf '\n%s\n' "$table"
exit "$failed"
