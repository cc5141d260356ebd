// Package vulndb keeps Grype vulnerability databases on disk: it fetches the official one, imports others, verifies
// them, ages them and removes old ones.
//
// Each build lives in a folder of its own whose name is never used again, because SQLite caches an immutable file by its
// path for as long as any reader of this process has it open. A build becomes visible by one rename after it was
// verified and flushed, so a crash leaves either the old state or the new one. At most two builds stay on disk, the
// current and the one before. While one is installed there are besides these its archive and its unpacked file, then that
// file with its indexes and no archive. Who has a build open that is removed goes on reading it, but cannot open it again.
//
// Compare says which questions two databases may answer differently.
//
// Grype's own distribution client is used for the format of its listing only. It neither bounds what it downloads nor ends
// when a context does, and it replaces the database at a fixed path (docs/decisions/0011-matching-and-databases.md).
package vulndb
