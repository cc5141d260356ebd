#!/usr/bin/env bash
# Checks that everything that is generated is what the generators make today. They run in a copy of the tree, so that
# the tree itself needs to be neither clean nor committed, and stays untouched.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
failed=()

git ls-files -z --cached --others --exclude-standard |
	while IFS= read -r -d '' file; do [[ -e "$file" ]] && printf '%s\0' "$file"; done |
	tar --create --null --files-from=- | tar --extract --directory "$copy"

# A repository of its own shows the difference, untracked files included.
git -C "$copy" init --quiet
git -C "$copy" add --all --force
git -C "$copy" -c user.name=verify -c user.email=verify@localhost commit --quiet --no-verify -m tree

if [[ -d web/node_modules ]]; then
	ln -s "$root/web/node_modules" "$copy/web/node_modules"
	echo web/node_modules >>"$copy/.git/info/exclude"
fi

echo "generators"
make -C "$copy" generate manifests >"$copy/.git/verify.log" 2>&1 || {
	cat "$copy/.git/verify.log" >&2
	failed+=("a generator failed")
}
git -C "$copy" add --intent-to-add --all
if ! git -C "$copy" --no-pager diff --exit-code; then
	failed+=("generated files are out of date: run 'make generate manifests'")
fi

echo "go.mod files"
while IFS= read -r -d '' file; do
	(cd "$(dirname "$file")" && go mod tidy -diff) ||
		failed+=("$file is not tidy: run 'go mod tidy' in its directory")
	# The modules of the oldest API server are downloaded for make test-versions alone.
done < <(git ls-files -z --cached --others --exclude-standard 'go.mod' '**/go.mod' ':!hack/devcluster/oldest/go.mod')

go run ./hack/align || failed+=("modules share packages at different versions: run 'make align'")

echo "formatting"
unformatted=$(git ls-files -z --cached --others --exclude-standard '*.go' |
	while IFS= read -r -d '' file; do [[ -e "$file" ]] && printf '%s\0' "$file"; done | xargs -0 gofmt -l)
if [[ -n "$unformatted" ]]; then
	echo "$unformatted" >&2
	failed+=("files are not formatted: run 'gofmt -w'")
fi

if ((${#failed[@]} > 0)); then
	printf 'FAIL: %s\n' "${failed[@]}" >&2
	exit 1
fi
echo "everything is up to date"
