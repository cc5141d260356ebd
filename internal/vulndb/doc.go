// Package vulndb keeps Grype vulnerability databases on disk: it fetches the official one, imports others, verifies
// them, ages them and removes old ones.
//
// Each build lives in a folder of its own whose name is never used again, because SQLite caches an immutable file by its
// path for as long as any reader of this process has it open. A build becomes visible by one rename after it was
// verified and flushed, so a crash leaves either the old state or the new one. At most two builds stay on disk, the
// current and the one before, besides one that is being installed.
//
// Grype's own distribution client is used for the format of its listing only. It neither bounds what it downloads and
// unpacks nor ends when a context does, and it replaces the database at a fixed path.
package vulndb
