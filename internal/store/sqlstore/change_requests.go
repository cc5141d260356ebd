package sqlstore

import (
	"context"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// RecordChangeRequest implements store.Events.
func (s *Store) RecordChangeRequest(ctx context.Context, request store.ChangeRequest) error {
	return s.write(ctx, "record a requested change", func(tx *txn) error { return tx.changeRequest(request, request.Outcome) })
}

// changeRequest adds the event about a request. Only a name that is an image ID makes it an event of an image.
func (t *txn) changeRequest(request store.ChangeRequest, outcome store.ChangeOutcome) error {
	imageID := request.Object.Name
	if (model.ImageKey{ImageID: imageID}).Validate() != nil {
		imageID = ""
	}
	request.User, request.Object.Name = sqldb.Truncate(request.User, maxName), sqldb.Truncate(request.Object.Name, maxName)
	request.Outcome = outcome
	return t.event(store.EventChangeRequested, imageID, "", request)
}
