// Package catalog generates the SBOM of an image: it pulls the image by digest and platform, or reads it from an OCI layout or an
// archive, analyzes it with Syft, and uploads the SBOM to the operator.
//
// All input is untrusted. The sizes in a manifest are checked before any layer is fetched; layers are
// streamed through counting readers that verify both digests (of the compressed and of the decompressed bytes) and
// their entries are counted, all before Syft sees the first of them. Files are never unpacked under the names that an
// image gives them. All temporary files live in one folder, which is removed on every way out.
//
// Registry credentials are sent only to their registry and to its token service on the same site, and never appear in an
// error.
package catalog
