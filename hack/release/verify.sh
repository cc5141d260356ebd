#!/usr/bin/env bash
# Verifies a release as docs/how-to/release.md tells users to: the signature of the checksums, then the checksums.
set -euo pipefail
dir=${1:?the directory of the release} key=${2:?the public key}
[[ -e "$key" ]] || {
	echo "the public key $key is missing: commit it, so that users can verify the release" >&2
	exit 1
}
if grep -q ED25519 <<<"$(openssl pkey -pubin -in "$key" -noout -text)"; then
	openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$dir/SHA256SUMS" -sigfile "$dir/SHA256SUMS.sig"
else
	openssl dgst -sha256 -verify "$key" -signature "$dir/SHA256SUMS.sig" "$dir/SHA256SUMS"
fi
cd "$dir"
sha256sum --check --strict SHA256SUMS
