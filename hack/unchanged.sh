#!/usr/bin/env bash
# Runs a check unless it has passed before with the same input: unchanged.sh PATH... -- COMMAND...
# The input is the command, the version of Node and the files below the paths that git does not ignore. Their digest is kept in the user's cache for 30 days.
# Only for commands that read nothing else, and write nothing that is needed.
set -euo pipefail
cd "$(dirname "$0")/.."

paths=()
while [[ "$1" != -- ]]; do
	paths+=("$1")
	shift
done
shift

cache=${SCANNER_OPERATOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}}/scanner-operator/unchanged
# Without a git repository or GNU tar, and with a file or path missing, there is no digest.
digest() {
	{
		printf '%s\0' "$@"
		node --version 2>/dev/null || true
		git ls-files -z --cached --others --exclude-standard --error-unmatch -- "${paths[@]}" | sort -zu |
			tar --create --null --no-recursion --files-from=- --format=gnu --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go=
	} 2>/dev/null | sha256sum | cut -d' ' -f1
}
before=$(digest "$@") || exec "$@"

mkdir -p "$cache"
find "$cache" -type f -mtime +30 -delete || true # Another run may do the same.
if [[ -e "$cache/$before" ]]; then
	echo "unchanged since it passed: $*"
	exit
fi
"$@"
if [[ "$(digest "$@")" == "$before" ]]; then
	touch "$cache/$before"
fi
