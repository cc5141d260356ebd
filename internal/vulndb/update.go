package vulndb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/sample"
)

// pollInterval is how often Run looks whether another process installed a build or asked for a re-match.
const pollInterval = 5 * time.Second

// Run keeps the library up to date until ctx ends: it looks for a newer database at once and then every Interval, sooner
// after a failure, and notices within seconds what other processes do to the folder. It returns nil always; failures are
// logged and returned by Status.
func (l *Library) Run(ctx context.Context) error {
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		l.watch(ctx)
	}()
	defer func() { <-watched }()
	failures := 0
	for ctx.Err() == nil {
		_, err := l.Update(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			failures++
			l.cfg.Log.Error(err, "Cannot update the vulnerability database", "failures", failures)
		} else {
			failures = 0
		}
		delay := l.delay(failures)
		l.setStatus(func(s *checkStatus) { s.nextCheck = l.cfg.Clock.Now().Add(delay) })
		select {
		case <-ctx.Done():
		case <-l.cfg.Clock.After(delay):
		}
	}
	l.setStatus(func(s *checkStatus) { s.nextCheck = time.Time{} })
	return nil //nolint:nilerr // failures are returned by Status; this is the end of the context
}

// Start makes the library a Runnable of a manager.
func (l *Library) Start(ctx context.Context) error { return l.Run(ctx) }

// NeedLeaderElection says that only the leader downloads databases and holds them. Another replica begins when it becomes the
// leader, from what is in its folder.
func (l *Library) NeedLeaderElection() bool { return true }

// watch notices what other processes do to the folder.
func (l *Library) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.cfg.Clock.After(pollInterval):
		}
		l.detectChanges()
	}
}

// detectChanges compares names only, and reads more when they differ.
func (l *Library) detectChanges() {
	var known []string
	for _, build := range l.List() {
		known = append(known, filepath.Base(build.Dir))
	}
	slices.Sort(known)
	if names, err := l.folders(); err == nil && !slices.Equal(names, known) {
		l.refresh()
	}
	l.detectRematch()
}

// delay is the time to the next look, with a tenth of chance so that clusters do not all ask at once.
func (l *Library) delay(failures int) time.Duration {
	delay := l.cfg.Interval
	if failures > 0 {
		delay = min(delay, minInterval<<min(failures-1, 20))
	}
	return delay + time.Duration((rand.Float64()-0.5)*0.2*float64(delay)) //nolint:gosec // not a secret
}

// Update looks for a newer database and installs it. While there is none at all and Config.Sample is set, it falls back
// to the sample database: changed is then true together with the error that says why the official one was not to be had.
func (l *Library) Update(ctx context.Context) (changed bool, err error) {
	defer l.progress("", 0, 0)
	l.refresh()
	changed, err = l.updateOfficial(ctx)
	l.setStatus(func(s *checkStatus) {
		s.lastCheck = l.cfg.Clock.Now()
		s.lastError = err
	})
	if changed || ctx.Err() != nil || !l.cfg.Sample {
		return changed, err
	}
	sampled, sampleErr := l.updateSample(ctx)
	return sampled, errors.Join(err, sampleErr)
}

func (l *Library) updateOfficial(ctx context.Context) (bool, error) {
	if l.cfg.UpdateURL == UpdateURLNone {
		return false, nil
	}
	l.progress("check", 0, 0)
	offer, err := l.latest(ctx)
	if err != nil {
		return false, err
	}
	if l.isCurrent(offer) {
		return false, nil
	}
	before, _ := l.Current()
	installed, err := l.install(ctx, func(ctx context.Context, dir string) (candidate, error) {
		id, err := l.fetch(ctx, offer.url, offer.checksum, dir)
		if err != nil {
			return candidate{}, err
		}
		return candidate{id: id, source: model.DatabaseSourceOfficial, origin: redact(offer.url), archive: offer.checksum}, nil
	})
	return err == nil && installed.Dir != before.Dir, err
}

// isCurrent says that what is offered is the current database or an older one. Whatever dates the listing and the database
// carry, an archive is fetched once.
func (l *Library) isCurrent(offer listing) bool {
	current, ok := l.Current()
	if !ok || current.Build.Source == model.DatabaseSourceSample {
		return false
	}
	if !offer.archive.Built.After(current.Build.Built) {
		return true
	}
	r, err := readRecord(current.Dir)
	return err == nil && r.Archive == offer.checksum
}

// updateSample installs the sample database when there is nothing else, or an older sample.
func (l *Library) updateSample(ctx context.Context) (bool, error) {
	if current, ok := l.Current(); ok {
		if current.Build.Source != model.DatabaseSourceSample {
			return false, nil
		}
		if r, err := readRecord(current.Dir); err == nil && r.SampleDigest == sample.Digest() {
			return false, nil
		}
	}
	_, err := l.install(ctx, func(_ context.Context, dir string) (candidate, error) {
		l.progress("build sample", 0, 0)
		if err := sample.Build(dir); err != nil {
			return candidate{}, fmt.Errorf("build the sample vulnerability database: %w", err)
		}
		return candidate{
			id: sample.Digest(), source: model.DatabaseSourceSample, origin: "sample", sampleDigest: sample.Digest(),
		}, nil
	})
	return err == nil, err
}
