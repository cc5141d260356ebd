package vulndb

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Installed is one build on disk. Its folder is never used for another build.
type Installed struct {
	// Dir holds a folder "6" as the grype command expects it in its cache.
	Dir         string
	Build       model.DatabaseBuild
	InstalledAt time.Time
	// AllowOlder says that it was imported with AllowOlder.
	AllowOlder bool
}

// SQLiteDir is the folder that holds the database file itself.
func (i Installed) SQLiteDir() string { return filepath.Join(i.Dir, schemaDir) }

// Library is the set of installed builds. Its methods may be called from several goroutines. Several processes may have
// one folder open: what one of them installs, the others notice.
type Library struct {
	cfg     Config
	client  *http.Client
	changed chan struct{}
	// free is the free space in the file system of a folder, in bytes.
	free func(dir string) (int64, error)

	// installing makes installations of this process follow one another; a lock on disk does so between processes.
	installing sync.Mutex
	// refreshing keeps an older look at the folder from replacing a newer one.
	refreshing sync.Mutex

	mu     sync.Mutex
	builds []Installed // oldest first; the last one is current
	status checkStatus
	work   work
	// noticed is the last request for a re-match that was signalled, read the one that RematchRequest returned last.
	noticed, read string
}

type checkStatus struct {
	lastCheck time.Time
	lastError error
	nextCheck time.Time
}

// work is what is under way, and how far.
type work struct {
	stage       string
	done, total int64
}

// Status says how up to date the library is.
type Status struct {
	// LastCheck is when an update was last looked for, zero when never.
	LastCheck time.Time
	// LastError is why the last check failed, nil when it did not.
	LastError error
	// NextCheck is when Run looks again, zero when it does not run.
	NextCheck time.Time
	// Age is the time since the current build was made, 0 when there is none.
	Age time.Duration
	// Stale says that Age exceeds MaxAge, which is that of Config.
	Stale  bool
	MaxAge time.Duration
	// Stage is what is being done: "wait" (for another process), "check", "download", "unpack", "verify", "prepare" or "publish"; "build
	// sample" too. It is "" when nothing is. Done and Total are bytes; Total is 0 while it is not known.
	Stage       string
	Done, Total int64
}

// New opens the library in cfg.Dir and recovers what is there. A build that is damaged is removed; the one before it
// takes its place.
func New(cfg Config) (*Library, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := newHTTPClient(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	l := &Library{cfg: cfg, client: client, changed: make(chan struct{}, 1), free: freeSpace}
	if err := os.MkdirAll(l.buildsDir(), 0o700); err != nil {
		return nil, fmt.Errorf("vulnerability database: create the directory: %w", err)
	}
	if err := l.recover(); err != nil {
		return nil, err
	}
	return l, nil
}

// Current is the build in use; false when there is none yet.
func (l *Library) Current() (Installed, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.builds) == 0 {
		return Installed{}, false
	}
	return l.builds[len(l.builds)-1], true
}

// Installed is a build that is still on disk: the current one or the one before it.
func (l *Library) Installed(buildID string) (Installed, bool) {
	for _, build := range l.List() {
		if build.Build.ID == buildID {
			return build, true
		}
	}
	return Installed{}, false
}

// Changed receives a value after Current changed or a re-match was asked for. Several changes may come as one; ask Current
// and RematchRequest for the newest.
func (l *Library) Changed() <-chan struct{} { return l.changed }

// List returns the installed builds, the current one first.
func (l *Library) List() []Installed {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.builds)
	slices.Reverse(out)
	return out
}

// Status says when updates were looked for and how old the current build is.
func (l *Library) Status() Status {
	current, ok := l.Current()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{
		LastCheck: l.status.lastCheck, LastError: l.status.lastError, NextCheck: l.status.nextCheck,
		Stage: l.work.stage, Done: l.work.done, Total: l.work.total, MaxAge: l.cfg.MaxAge,
	}
	if ok {
		s.Age = max(l.cfg.Clock.Now().Sub(current.Build.Built), 0)
		s.Stale = s.Age > l.cfg.MaxAge
	}
	return s
}

func (l *Library) setStatus(change func(*checkStatus)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.status)
}

// setBuilds replaces the list and signals a change of the current build.
func (l *Library) setBuilds(builds []Installed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := len(builds) > 0 && (len(l.builds) == 0 || l.builds[len(l.builds)-1].Dir != builds[len(builds)-1].Dir)
	l.builds = builds
	if changed {
		l.signal()
	}
}

func (l *Library) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// progress reports the progress of an operation. The stage "" ends it.
func (l *Library) progress(stage string, done, total int64) {
	l.mu.Lock()
	l.work = work{stage, done, total}
	l.mu.Unlock()
	if stage != "" {
		l.cfg.Progress(stage, done, total)
	}
}

func (l *Library) buildsDir() string { return filepath.Join(l.cfg.Dir, buildsName) }
