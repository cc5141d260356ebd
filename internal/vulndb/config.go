package vulndb

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
)

// UpdateURLNone as Config.UpdateURL says that no network is to be asked, ever; databases are imported or the sample.
const UpdateURLNone = "none"

// Clock is the source of time; tests replace it.
type Clock interface {
	Now() time.Time
	// After sends once, when the duration has passed.
	After(time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Config says where databases come from and where they go. A field that is zero means its default.
type Config struct {
	// Dir is the folder that this package owns. It must not hold the characters ? # %, which SQLite reads as its own.
	Dir string
	// UpdateURL is the folder that holds Grype's "v6/latest.json" (or "latest.json"), or a URL that ends in ".json".
	// Default: where Grype's official database is. UpdateURLNone asks nobody.
	UpdateURL string
	// Interval is the time between two looks for a new database. Default 6 hours, at least 1 minute. It is stretched or
	// shortened at random by up to a tenth, and shorter after failures, beginning at 1 minute and doubling.
	Interval time.Duration
	// Sample allows the built-in sample database while no other one could be had.
	Sample bool
	// CAFile is a PEM file of certificate authorities that are trusted besides those of the system.
	CAFile string
	// MaxAge is the age of a build from which Status calls it stale. Default 5 days, as Grype has it. Old databases are
	// used all the same: in a network without access the last one is better than none.
	MaxAge time.Duration

	// CheckTimeout bounds the fetch of the listing. Default 30 seconds.
	CheckTimeout time.Duration
	// DownloadTimeout bounds the fetch of an archive. Default 15 minutes.
	DownloadTimeout time.Duration
	// MaxArchiveBytes bounds an archive as it is fetched. Default 2 GiB.
	MaxArchiveBytes int64
	// MaxDatabaseBytes bounds a database as it is unpacked. Default 8 GiB.
	MaxDatabaseBytes int64

	// Progress receives the progress of long operations; total is 0 while it is unknown. It must return at once.
	Progress func(stage string, done, total int64)
	Log      logr.Logger
	Clock    Clock
}

const minInterval = time.Minute

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("vulnerability database: the directory is not configured")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fmt.Errorf("vulnerability database: directory %q: %w", c.Dir, err)
	}
	if strings.ContainsAny(dir, "?#%") {
		return c, fmt.Errorf("vulnerability database: the directory %q contains one of the characters ? # %%, which SQLite does not support in paths; choose another directory", dir)
	}
	c.Dir = dir
	if c.UpdateURL == "" {
		c.UpdateURL = officialURL()
	}
	if c.UpdateURL != UpdateURLNone {
		if err := checkURL(c.UpdateURL); err != nil {
			return c, fmt.Errorf("vulnerability database: update URL: %w", err)
		}
	}
	setDefault(&c.Interval, 6*time.Hour)
	c.Interval = max(c.Interval, minInterval)
	setDefault(&c.MaxAge, 5*24*time.Hour)
	setDefault(&c.CheckTimeout, 30*time.Second)
	setDefault(&c.DownloadTimeout, 15*time.Minute)
	setDefault(&c.MaxArchiveBytes, 2<<30)
	setDefault(&c.MaxDatabaseBytes, 8<<30)
	if c.Progress == nil {
		c.Progress = func(string, int64, int64) {}
	}
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	return c, nil
}

func setDefault[T ~int64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

func checkURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return fmt.Errorf("%q is not a URL", raw)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("%q is not an http or https URL", u.Redacted())
	}
	return nil
}
