package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// sessionRow is a row of sessions.
type sessionRow struct {
	ID, Owner, Subject, ProviderSession      string
	Content                                  []byte
	Version, CreatedAt, RefreshAt, ExpiresAt int64
}

// CreateSession implements store.Sessions.
func (s *Store) CreateSession(ctx context.Context, session store.Session) error {
	const what = "create a session"
	if err := validateSession(session); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return s.write(ctx, what, func(tx *txn) error {
		if err := tx.Execute("DELETE FROM sessions WHERE expires_at <= ?", tx.now); err != nil {
			return err
		}
		var count int64
		if err := tx.Raw("SELECT COUNT(*) FROM sessions").Scan(&count).Error; err != nil {
			return err
		}
		var surplus []string
		err := tx.Raw("SELECT id FROM sessions WHERE owner = ? ORDER BY created_at DESC, id LIMIT ? OFFSET ?",
			session.Owner, store.MaxSessionsOfOwner, store.MaxSessionsOfOwner-1).Scan(&surplus).Error
		if err != nil {
			return err
		}
		if count-int64(len(surplus)) >= store.MaxSessions {
			return store.ErrTooManySessions
		}
		if len(surplus) > 0 {
			if err := tx.Execute("DELETE FROM sessions WHERE id IN ?", surplus); err != nil {
				return err
			}
		}
		return tx.Insert("sessions", []string{
			"id", "owner", "subject", "provider_session", "content", "version", "created_at", "refresh_at", "expires_at",
		}, []any{
			session.ID, session.Owner, session.Subject, session.ProviderSession, session.Content, session.Version,
			micros(session.CreatedAt), micros(session.RefreshAt), micros(session.ExpiresAt),
		}, "")
	})
}

// Session implements store.Sessions.
func (s *Store) Session(ctx context.Context, id string) (store.Session, error) {
	var rows []sessionRow
	err := s.read(ctx, "read a session", func(tx *gorm.DB) error {
		rows = nil
		return tx.Raw("SELECT id, owner, subject, provider_session, content, version, created_at, refresh_at, expires_at FROM sessions "+
			"WHERE id = ? AND expires_at > ?", id, s.now()).Scan(&rows).Error
	})
	if err != nil {
		return store.Session{}, err
	}
	if len(rows) == 0 {
		return store.Session{}, fmt.Errorf("session: %w", store.ErrNotFound)
	}
	row := rows[0]
	return store.Session{
		ID: row.ID, Owner: row.Owner, Subject: row.Subject, ProviderSession: row.ProviderSession, Content: row.Content, Version: row.Version,
		CreatedAt: fromMicros(row.CreatedAt), RefreshAt: fromMicros(row.RefreshAt), ExpiresAt: fromMicros(row.ExpiresAt),
	}, nil
}

// UpdateSession implements store.Sessions.
func (s *Store) UpdateSession(ctx context.Context, session store.Session) (updated bool, err error) {
	const what = "update a session"
	if err := validateSession(session); err != nil {
		return false, fmt.Errorf("%s: %w", what, err)
	}
	err = s.write(ctx, what, func(tx *txn) error {
		changed, err := tx.Change("UPDATE sessions SET provider_session = ?, content = ?, refresh_at = ?, expires_at = ?, version = version + 1 WHERE id = ? AND version = ?",
			session.ProviderSession, session.Content, micros(session.RefreshAt), micros(session.ExpiresAt), session.ID, session.Version)
		updated = changed == 1
		return err
	})
	return updated, err
}

// DeleteSessions implements store.Sessions.
func (s *Store) DeleteSessions(ctx context.Context, selector store.SessionSelector) error {
	const what = "delete sessions"
	condition, values := "", []any(nil)
	for _, field := range []struct{ column, value string }{
		{"id", selector.ID}, {"owner", selector.Owner}, {"subject", selector.Subject}, {"provider_session", selector.ProviderSession},
	} {
		switch {
		case field.value == "":
		case field.column == "provider_session" && selector.Subject != "":
			condition, values = condition+" AND provider_session IN (?, '')", append(values, field.value)
		default:
			condition, values = condition+" AND "+field.column+" = ?", append(values, field.value)
		}
	}
	if len(values) == 0 {
		return errors.New(what + ": the selector is empty")
	}
	if !selector.CreatedBefore.IsZero() {
		condition, values = condition+" AND created_at < ?", append(values, micros(selector.CreatedBefore))
	}
	return s.write(ctx, what, func(tx *txn) error { return tx.Execute("DELETE FROM sessions WHERE 1 = 1"+condition, values...) })
}

// validateSession refuses what the columns do not hold.
func validateSession(session store.Session) error {
	if session.ID == "" || session.Owner == "" || session.Subject == "" {
		return errors.New("ID, owner and subject are required")
	}
	for _, text := range []string{session.ID, session.Owner, session.Subject, session.ProviderSession} {
		if len(text) > store.MaxSessionKey {
			return fmt.Errorf("a key has %d bytes, which exceeds the maximum of %d", len(text), store.MaxSessionKey)
		}
	}
	if len(session.Content) > store.MaxSessionContent {
		return fmt.Errorf("the content has %d bytes, which exceeds the maximum of %d", len(session.Content), store.MaxSessionContent)
	}
	return nil
}
