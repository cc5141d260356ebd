package store

import (
	"context"
	"io"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// MaxSharedDatabase bounds the archive of a SharedDatabase in bytes.
const MaxSharedDatabase = 2 << 30

// SharedDatabase is a vulnerability database that was imported on one replica, and that the others take from the store.
type SharedDatabase struct {
	// ID is of this copy. SaveSharedDatabase chooses it.
	ID    string
	Build model.DatabaseBuild
	// InstalledAt is when it was imported, to the microsecond. AllowOlder says that it may replace a newer one.
	InstalledAt time.Time
	AllowOlder  bool
	// Size is that of the archive in bytes; SaveSharedDatabase counts it.
	Size int64
}

// SharedDatabases is the part of the store with the vulnerability database that replicas share. There is at most one that is complete.
type SharedDatabases interface {
	// SharedDatabase returns the database that is shared, false when none is.
	SharedDatabase(ctx context.Context) (SharedDatabase, bool, error)
	// SaveSharedDatabase shares a database in place of the one that was shared before. It reads the archive to its end, in short
	// transactions; nobody sees it before it is complete. More than MaxSharedDatabase bytes are an error.
	SaveSharedDatabase(ctx context.Context, database SharedDatabase, archive io.Reader) error
	// LoadSharedDatabase writes the archive to w. It holds no transaction while w takes its time. ErrNotFound: it is not shared any
	// more; w may have got a part of it.
	LoadSharedDatabase(ctx context.Context, id string, w io.Writer) error
	// DeleteSharedDatabase removes a database; one that is gone is no error.
	DeleteSharedDatabase(ctx context.Context, id string) error
}
