package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// slot names a container of a workload in an index: by its parts, or by their digest when they are too long or would be ambiguous.
func (r *useRow) slot() string {
	name := strings.Join([]string{r.Namespace, r.Kind, r.Name, r.Container}, "/")
	if len(name) > maxIdentifier || strings.Count(name, "/") != 3 {
		return contentDigest(r.Namespace, r.Kind, r.Name, r.Container)
	}
	return name
}

// presenceWriter keeps where images ran, and what took the place of what.
type presenceWriter struct {
	*txn
	cluster string
}

// placed is an image in a slot.
type placed struct {
	image int64
	slot  string
}

// occupant is a presence that has not ended, or only lately.
type occupant struct {
	ID, ImagePk, Since, UntilTime int64
	Slot, ImageID, Platform       string
}

// replaced says whether another image ID has begun in the slot since the presence ended.
func (o *occupant) replaced(there []occupant) bool {
	return o.UntilTime != stillOpen && slices.ContainsFunc(there, func(other occupant) bool {
		return other.ImageID != o.ImageID && other.Since >= o.UntilTime
	})
}

func (o *occupant) image() store.RolloutImage {
	return store.RolloutImage{ImageID: o.ImageID, Platform: o.Platform}
}

// lastOf is the last of the occupants with this image ID, or nil.
func lastOf(there []occupant, imageID string) *occupant {
	for i := range slices.Backward(there) {
		if there[i].ImageID == imageID {
			return &there[i]
		}
	}
	return nil
}

// The statements of a presenceWriter.
const (
	endPresences = `UPDATE image_presences SET until_time = ? WHERE slot IN ? AND until_time = ? AND NOT EXISTS (
		SELECT 1 FROM image_uses u WHERE u.namespace = image_presences.namespace AND u.name = image_presences.name
		AND u.kind = image_presences.kind AND u.image_pk = image_presences.image_pk AND u.container = image_presences.container)`
	occupantsOfSlots = `SELECT p.id, p.image_pk, p.since, p.until_time, p.slot, i.image_id, i.platform FROM image_presences p
		JOIN images i ON i.id = p.image_pk WHERE p.slot IN ? AND p.until_time > ? ORDER BY p.until_time, p.since, p.id`
)

// end ends the presences of uses that are gone from a scope, unless another scope has the use still, and keeps when that was.
func (w *presenceWriter) end(scope string, gone []useRow) error {
	for part := range slices.Chunk(slotsOf(gone), sqldb.MaxIn) {
		if err := w.Execute(endPresences, w.now, part, int64(stillOpen)); err != nil {
			return err
		}
	}
	return recordLastUses(w.txn, scope, gone)
}

// begin makes a presence of each use that has none: the last one when it ended lately and nothing else has taken its place, otherwise a
// new one. What began at this very time begins no second time.
func (w *presenceWriter) begin(added []useRow) error {
	occupants, err := w.occupants(slotsOf(added))
	if err != nil {
		return err
	}
	latest := map[placed]*occupant{}
	for slot, there := range occupants {
		for i := range there {
			latest[placed{there[i].ImagePk, slot}] = &there[i]
		}
	}
	var reopened []int64
	var begun []useRow
	for i := range added {
		row := &added[i]
		switch before := latest[placed{row.ImagePk, row.slot()}]; {
		case before == nil, before.replaced(occupants[row.slot()]) && before.Since != w.now:
			begun = append(begun, *row)
		case before.UntilTime != stillOpen:
			reopened = append(reopened, before.ID)
		}
	}
	for part := range slices.Chunk(reopened, sqldb.MaxIn) {
		if err := w.Execute("UPDATE image_presences SET until_time = ? WHERE id IN ?", int64(stillOpen), part); err != nil {
			return err
		}
	}
	if err := w.recordBegun(begun, occupants); err != nil {
		return err
	}
	values := make([]any, 0, 9*len(begun))
	for i := range begun {
		row := &begun[i]
		values = append(values, row.ImagePk, row.slot(), w.cluster, row.Namespace, row.Kind, row.Name, row.Container, w.now, int64(stillOpen))
	}
	return w.Insert("image_presences", []string{
		"image_pk", "slot", "cluster", "namespace", "kind", "name", "container", "since", "until_time",
	}, values, "")
}

// occupants finds what is in slots, or was less than store.PresenceGap ago, by slot: what is there now last, the newest of it last of all.
func (w *presenceWriter) occupants(slots []string) (map[string][]occupant, error) {
	recently := w.now - store.PresenceGap.Microseconds()
	occupants := map[string][]occupant{}
	for part := range slices.Chunk(slots, sqldb.MaxIn) {
		var rows []occupant
		if err := w.Raw(occupantsOfSlots, part, recently).Scan(&rows).Error; err != nil {
			return nil, err
		}
		for _, row := range rows {
			occupants[row.Slot] = append(occupants[row.Slot], row)
		}
	}
	return occupants, nil
}

// slotsOf lists the slots of uses, each once.
func slotsOf(uses []useRow) []string {
	slots := make([]string, len(uses))
	for i := range uses {
		slots[i] = uses[i].slot()
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// presenceOrder has what runs first, then what ran last.
var presenceOrder = []sqldb.SortKey{
	{Column: "p.until_time", Number: true, Descending: true}, {Column: "p.since", Number: true, Descending: true},
	{Column: "p.id", Number: true, Descending: true},
}

// presenceToken is what a page token of presences belongs to.
type presenceToken struct{ List, ImageID, Platform string }

// Presences implements store.History.
func (s *Store) Presences(ctx context.Context, in store.Namespaces, query store.PresenceQuery) (store.PresencePage, error) {
	token := presenceToken{"presences", query.Image.ImageID, query.Image.Platform.String()}
	var page store.PresencePage
	err := s.read(ctx, "list where an image ran", func(tx *gorm.DB) error {
		page = store.PresencePage{Presences: []store.Presence{}}
		if _, err := findImage(tx, in, query.Image); err != nil {
			return err
		}
		filtered := visiblePresences(tx.Table("image_presences AS p").Joins("JOIN images i ON i.id = p.image_pk"), "p", in).Where("i.image_id = ?", query.Image.ImageID)
		if query.Image.Platform != (model.Platform{}) {
			filtered = filtered.Where("i.platform = ?", query.Image.Platform.String())
		}
		filtered = filtered.Session(&gorm.Session{})
		var total int64
		if err := filtered.Count(&total).Error; err != nil {
			return err
		}
		page.Total = int(total)
		if err := readPresences(filtered, in, query, token, &page); err != nil {
			return err
		}
		return setOwners(tx, workloadsIn(page.Presences, func(p *store.Presence) *store.Workload { return &p.Workload }))
	})
	if err != nil {
		return store.PresencePage{}, err
	}
	return page, nil
}

// readPresences fills a page.
func readPresences(filtered *gorm.DB, in store.Namespaces, query store.PresenceQuery, token presenceToken, page *store.PresencePage) error {
	behind, err := fromToken(filtered, query.Token, token, presenceOrder)
	if err != nil {
		return err
	}
	var rows []struct {
		ID, Since, ShownSince, UntilTime                  int64
		ImageID, Platform                                 string
		Cluster, Namespace, Kind, Workload, ContainerName string
	}
	limit := query.Limit()
	err = behind.Select("p.id, p.since, " + presenceSince("p", in) + " AS shown_since, p.until_time, i.image_id, i.platform, p.cluster, p.namespace, p.kind, p.name AS workload, p.container AS container_name").
		Order(sqldb.OrderBy(presenceOrder)).Limit(limit + 1).Scan(&rows).Error
	if err != nil {
		return err
	}
	if len(rows) > limit {
		rows = rows[:limit]
		last := &rows[limit-1]
		page.NextToken, err = store.EncodeToken(token,
			strconv.FormatInt(last.UntilTime, 10), strconv.FormatInt(last.Since, 10), strconv.FormatInt(last.ID, 10))
		if err != nil {
			return err
		}
	}
	for i := range rows {
		row := &rows[i]
		presence := store.Presence{
			Cluster: row.Cluster, Workload: store.Workload{Namespace: row.Namespace, Kind: row.Kind, Name: row.Workload},
			Container: row.ContainerName, Since: fromMicros(row.ShownSince),
		}
		if row.UntilTime != stillOpen {
			presence.Until = fromMicros(row.UntilTime)
		}
		if presence.Image, err = keyOf(row.ImageID, row.Platform); err != nil {
			return fmt.Errorf("where image %s ran: %w", row.ImageID, err)
		}
		page.Presences = append(page.Presences, presence)
	}
	return nil
}
