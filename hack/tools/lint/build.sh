#!/usr/bin/env bash
# Builds golangci-lint: build.sh OUTPUT. Its cache knows files of the main module by their paths in it, but those of modules that go.mod replaces with
# folders by absolute paths. Packages that import one would be linted again in each clone, so here those paths are relative, too.
set -euo pipefail
output=$(realpath -m "$1")
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
module=github.com/golangci/golangci-lint/v2
go mod download "$module"
cp -r --no-preserve=mode "$(go list -m -f '{{.Dir}}' "$module")" "$work/module"
position=$work/module/internal/cache/position.go
sed -i.original 's/mod\.Version == ""$/(& || mod.Replace != nil \&\& mod.Replace.Version == "")/' "$position"
if cmp -s "$position" "$position.original"; then
	echo "build golangci-lint: internal/cache/position.go of $module has changed; edit it otherwise, or not at all" >&2
	exit 1
fi
cp go.mod go.sum "$work"
go mod edit -replace "$module=$work/module" "$work/go.mod"
go build -modfile "$work/go.mod" -ldflags '-s -w' -o "$output" "$module/cmd/golangci-lint"
