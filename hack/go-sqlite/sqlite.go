// Package sqlite has the part of the interface of github.com/glebarez/go-sqlite that its dialect of GORM compiles against. The driver "sqlite" of database/sql is that of
// modernc.org/sqlite, from which the replaced module was copied: it is maintained, and runs a prepared statement again without compiling it again.
// docs/decisions/0139-prepared-statements-of-sqlite.md has the figures.
package sqlite

import "modernc.org/sqlite"

// Error is an error of SQLite, with its code.
type Error = sqlite.Error
