package sqlstore

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// RegistryHolds implements store.Scans.
func (s *Store) RegistryHolds(ctx context.Context) ([]store.RegistryHold, error) {
	var holds []store.RegistryHold
	err := s.read(ctx, "read which registries are left alone", func(tx *gorm.DB) error {
		var rows []struct {
			Host, Reason string
			UntilTime    int64
		}
		err := tx.Raw("SELECT host, until_time, reason FROM registry_holds WHERE until_time > ? ORDER BY host", s.now()).Scan(&rows).Error
		holds = make([]store.RegistryHold, len(rows))
		for i, row := range rows {
			holds[i] = store.RegistryHold{Host: row.Host, Until: fromMicros(row.UntilTime), Reason: row.Reason}
		}
		return err
	})
	return holds, err
}

// HoldRegistry implements store.Scans. Rows whose time has come go with the next hold.
func (s *Store) HoldRegistry(ctx context.Context, hold store.RegistryHold) error {
	const what = "leave a registry alone"
	if hold.Host == "" || len(hold.Host) > vuln.MaxImageIDLength {
		return errors.New(what + ": the host is empty or too long")
	}
	return s.write(ctx, what, func(tx *txn) error {
		if err := tx.exec("DELETE FROM registry_holds WHERE until_time <= ?", tx.now); err != nil {
			return err
		}
		var later int64
		err := tx.Raw("SELECT COUNT(*) FROM registry_holds WHERE host = ? AND until_time >= ?", hold.Host, micros(hold.Until)).Scan(&later).Error
		if err != nil || later > 0 {
			return err
		}
		if err := tx.exec("DELETE FROM registry_holds WHERE host = ?", hold.Host); err != nil {
			return err
		}
		values := []any{hold.Host, micros(hold.Until), cut(hold.Reason, maxMessage)}
		return tx.insert("registry_holds", []string{"host", "until_time", "reason"}, values, "")
	})
}
