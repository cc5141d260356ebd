package vulndb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/sample"
)

// Run keeps the library up to date until ctx ends: it looks at once and then every Interval, sooner after a failure.
// It returns nil always; failures are logged and told by Status.
func (l *Library) Run(ctx context.Context) error {
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
	return nil //nolint:nilerr // failures are told by Status; this is the end of the context
}

// Start makes the library a Runnable of a manager.
func (l *Library) Start(ctx context.Context) error { return l.Run(ctx) }

// NeedLeaderElection says that every replica keeps its own files.
func (l *Library) NeedLeaderElection() bool { return false }

// delay is the time to the next look, with a tenth of chance so that replicas do not all ask at once.
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
	l.rescan()
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
	l.cfg.Progress("check", 0, 0)
	offer, err := l.latest(ctx)
	if err != nil {
		return false, err
	}
	current, ok := l.Current()
	// A sample is no more than a stand-in, whatever date it carries.
	if ok && current.Build.Source != vuln.DatabaseSourceSample && !offer.archive.Built.After(current.Build.Built) {
		return false, nil
	}
	_, err = l.install(ctx, func(ctx context.Context, dir string) (candidate, error) {
		archive := filepath.Join(dir, "..", "..", "archive")
		if err := l.download(ctx, offer.url, offer.checksum, archive); err != nil {
			return candidate{}, err
		}
		id, err := l.unpack(ctx, archive, dir)
		if err != nil {
			return candidate{}, fmt.Errorf("%s: %w", redact(offer.url), err)
		}
		return candidate{id: id, source: vuln.DatabaseSourceOfficial, origin: redact(offer.url)}, nil
	})
	return err == nil, err
}

// updateSample installs the sample database when there is nothing else, or an older sample.
func (l *Library) updateSample(ctx context.Context) (bool, error) {
	if current, ok := l.Current(); ok {
		if current.Build.Source != vuln.DatabaseSourceSample {
			return false, nil
		}
		if r, err := readRecord(current.Dir); err == nil && r.SampleDigest == sample.Digest() {
			return false, nil
		}
	}
	_, err := l.install(ctx, func(_ context.Context, dir string) (candidate, error) {
		l.cfg.Progress("build sample", 0, 0)
		if err := sample.Build(dir); err != nil {
			return candidate{}, fmt.Errorf("build the sample vulnerability database: %w", err)
		}
		return candidate{
			id: sample.Digest(), source: vuln.DatabaseSourceSample, origin: "sample", sampleDigest: sample.Digest(),
		}, nil
	})
	return err == nil, err
}
