package match

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/distro"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Lifecycles says until when releases of distributions are maintained, each named as in model.Catalog. All names are in the answer, also
// those that the database does not know.
func (d *Database) Lifecycles(ctx context.Context, distros []string) (map[string]model.Lifecycle, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return nil, ErrClosed
	}
	out := make(map[string]model.Lifecycle, len(distros))
	for _, name := range distros {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found, err := d.store.lifecycle(name)
		if err != nil {
			return nil, fmt.Errorf("read the lifecycle of the distribution %.80q: %w", name, err)
		}
		out[name] = found
	}
	return out, nil
}

// lifecycle asks as Grype does: for the release itself, neither for another distribution whose advisories apply to it nor for another
// release. In addition, the record of a major version is that of its minor versions if the database tells none of them apart, as those of
// Red Hat Enterprise Linux.
func (s *store) lifecycle(name string) (model.Lifecycle, error) {
	release := parseDistro(name)
	if release == nil || release.Name() == "" || release.MajorVersion() == "" && release.LabelVersion() == "" {
		return model.Lifecycle{}, nil // Without a name or a version, any release would be found.
	}
	found, err := s.GetOperatingSystems(v6.OSSpecifier{
		Name: release.Name(), MajorVersion: release.MajorVersion(), MinorVersion: release.MinorVersion(), RemainingVersion: release.RemainingVersion(),
		LabelVersion: release.LabelVersion(), DisableAliasing: true, DisableFallback: true,
	})
	if err == nil && len(found) == 0 && release.MinorVersion() != "" {
		found, err = s.majorRelease(release)
	}
	if err != nil || len(found) == 0 {
		return model.Lifecycle{}, err
	}
	return model.Lifecycle{Release: releaseOf(&found[0]), EndOfSupport: dayOf(found[0].EOASDate), EndOfLife: dayOf(found[0].EOLDate)}, nil
}

// releaseOf names the release that a record is about.
func releaseOf(record *v6.OperatingSystem) string {
	return cmp.Or(record.ReleaseID, record.Name) + ":" + cmp.Or(record.VersionNumber(), record.LabelVersion, record.Codename)
}

// majorRelease returns the record of a major version, none if there are records of its minor versions.
func (s *store) majorRelease(release *distro.Distro) ([]v6.OperatingSystem, error) {
	var found []v6.OperatingSystem
	err := s.db.Where("(name = ? COLLATE NOCASE OR release_id = ? COLLATE NOCASE) AND major_version = ? AND COALESCE(channel, '') = ''",
		release.Name(), release.Name(), release.MajorVersion()).Order("id").Find(&found).Error
	for i := range found {
		if found[i].MinorVersion != "" {
			return nil, err
		}
	}
	return found, err
}

// parseDistro reads what distroName writes, nil for what Grype's parser panics on.
func parseDistro(name string) (d *distro.Distro) {
	defer func() {
		if recover() != nil {
			d = nil
		}
	}()
	id, version, _ := strings.Cut(name, ":")
	return distro.NewFromNameVersion(id, version)
}

func dayOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC().Truncate(24 * time.Hour)
}
