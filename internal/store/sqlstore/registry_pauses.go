package sqlstore

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// RegistryPauses implements store.Scans.
func (s *Store) RegistryPauses(ctx context.Context) ([]store.RegistryPause, error) {
	var pauses []store.RegistryPause
	err := s.read(ctx, "read which registries are paused", func(tx *gorm.DB) error {
		var rows []struct {
			Host, Namespace, Reason string
			UntilTime               int64
		}
		err := tx.Raw("SELECT host, namespace, until_time, reason FROM registry_pauses WHERE until_time > ? AND until_time <= ? ORDER BY host, namespace", s.now(), lastPause(s.now())).Scan(&rows).Error
		pauses = make([]store.RegistryPause, len(rows))
		for i, row := range rows {
			pauses[i] = store.RegistryPause{Host: row.Host, Namespace: row.Namespace, Until: fromMicros(row.UntilTime), Reason: row.Reason}
		}
		return err
	})
	return pauses, err
}

// PauseRegistry implements store.Scans. Expired rows are deleted with the next pause.
func (s *Store) PauseRegistry(ctx context.Context, pause store.RegistryPause) error {
	const what = "pause a registry"
	if pause.Host == "" || len(pause.Host) > model.MaxImageIDLength {
		return errors.New(what + ": the host is empty or too long")
	}
	if len(pause.Namespace) > maxIdentifier {
		return errors.New(what + ": the namespace is too long")
	}
	return s.write(ctx, what, func(tx *txn) error {
		if err := tx.Execute("DELETE FROM registry_pauses WHERE until_time <= ? OR until_time > ?", tx.now, lastPause(tx.now)); err != nil {
			return err
		}
		var later int64
		err := tx.Raw("SELECT COUNT(*) FROM registry_pauses WHERE host = ? AND namespace = ? AND until_time >= ?",
			pause.Host, pause.Namespace, micros(pause.Until)).Scan(&later).Error
		if err != nil || later > 0 {
			return err
		}
		if err := tx.Execute("DELETE FROM registry_pauses WHERE host = ? AND namespace = ?", pause.Host, pause.Namespace); err != nil {
			return err
		}
		values := []any{pause.Host, pause.Namespace, micros(pause.Until), sqldb.Truncate(pause.Reason, maxMessage)}
		return tx.Insert("registry_pauses", []string{"host", "namespace", "until_time", "reason"}, values, "")
	})
}

// lastPause is when the longest pause ends. The clocks of replicas may differ by a minute; a pause that ends later comes from a clock that was ahead.
func lastPause(now int64) int64 { return now + (model.MaxRetryAfter + time.Minute).Microseconds() }
