// Package catalog turns an image into a bill of materials: it pulls the image by digest and platform, or reads it from
// an OCI layout or an archive, catalogues it with Syft, and hands the result to the operator.
//
// Everything that it reads is hostile. The sizes in a manifest are checked before any layer is fetched; layers are
// streamed through counting readers that verify both digests (of the compressed and of the decompressed bytes) and
// their entries are counted, all before Syft sees the first of them. Files are never unpacked under the names that an
// image gives them. All temporary files live in one folder, which is removed on every way out.
//
// Registry credentials go to the registry that they are meant for and to its token service on the same site, to
// nobody else, and never appear in an error.
package catalog
