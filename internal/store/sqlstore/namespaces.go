package sqlstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// place chooses images by what runs them now, as far as that is visible.
type place struct {
	store.Where
	in store.Namespaces
}

// everywhere reports whether all images are chosen.
func (p place) everywhere() bool { return p.in.All() && p.Where == (store.Where{}) }

// images selects the images that are chosen: those that something runs which Where chooses, or without it all that are visible.
func (p place) images(tx *gorm.DB) *gorm.DB {
	if p.Where == (store.Where{}) && !p.in.All() {
		return visibleImages(tx, p.in)
	}
	return uses(tx.Table("image_uses AS u").Select("u.image_pk"), p)
}

// within adds the condition that a column is one of the namespaces. Their names stand in the statement as they are: see store.OnlyNamespaces.
func within(tx *gorm.DB, column string, in store.Namespaces) *gorm.DB {
	if in.All() {
		return tx
	}
	return tx.Where(isWithin(column, in))
}

// isWithin is the condition that a column is one of some namespaces.
func isWithin(column string, in store.Namespaces) string {
	names := in.Literals()
	if names == "" {
		return "1 = 0"
	}
	return column + " IN (" + names + ")"
}

// visibleImages selects the images that are visible in some namespaces.
func visibleImages(tx *gorm.DB, in store.Namespaces) *gorm.DB {
	return tx.Table("image_namespaces AS m").Select("m.image_pk").Where(isWithin("m.namespace", in))
}

// visibleOnly adds the condition that a column is an image that is visible in some namespaces.
func visibleOnly(tx, rows *gorm.DB, column string, in store.Namespaces) *gorm.DB {
	if in.All() {
		return rows
	}
	return rows.Where(column+" IN (?)", visibleImages(tx, in))
}

// visibleSince selects the images that are visible in some namespaces, and since when.
func visibleSince(tx *gorm.DB, in store.Namespaces) *gorm.DB {
	return visibleImages(tx, in).Select("m.image_pk, MIN(m.since) AS since").Group("m.image_pk")
}

// visibleID adds the condition that a column is the ID of an image that is visible on some platform.
func visibleID(tx *gorm.DB, column string, in store.Namespaces) *gorm.DB {
	if in.All() {
		return tx
	}
	return tx.Where("EXISTS (SELECT 1 FROM images y JOIN image_namespaces m ON m.image_pk = y.id WHERE y.image_id = " + column + " AND " + isWithin("m.namespace", in) + ")")
}

// visiblePresences adds to presences that they are of some namespaces, and not over when their images began to be visible there, at n.since.
func visiblePresences(tx *gorm.DB, presences string, in store.Namespaces) *gorm.DB {
	if in.All() {
		return tx
	}
	return within(tx, presences+".namespace", in).
		Joins("JOIN (?) n ON n.image_pk = "+presences+".image_pk", visibleSince(tx.Session(&gorm.Session{NewDB: true}), in)).Where(presences + ".until_time > n.since")
}

// presenceSince is the beginning of presences that visiblePresences selects.
func presenceSince(presences string, in store.Namespaces) string {
	if in.All() {
		return presences + ".since"
	}
	return laterOf(presences+".since", "n.since")
}

// manySince is how many times as many images in namespaces as asked about are read by eachSince, rather than each looked up in each namespace.
const manySince = 10

// eachSince calls visit for images that are visible in some namespaces, and since when they are; also for others if these are not many.
func eachSince(tx *gorm.DB, in store.Namespaces, images []int64, visit func(image, since int64)) error {
	if len(images) == 0 {
		return nil
	}
	rows := visibleSince(tx, in)
	if len(images) <= sqldb.MaxIn {
		var visible int64
		some := within(tx.Table("image_namespaces AS m").Select("m.image_pk"), "m.namespace", in).Limit(manySince*len(images) + 1)
		if err := tx.Table("(?) AS s", some).Count(&visible).Error; err != nil {
			return err
		}
		if visible > int64(manySince*len(images)) {
			rows = rows.Where("m.image_pk IN ?", images)
		}
	}
	return eachRow(rows, func(scan func(...any) error) error {
		var image, since int64
		err := scan(&image, &since)
		visit(image, since)
		return err
	})
}

// visibleTimes is since when images are visible in some namespaces.
type visibleTimes map[int64]int64

// fewVisible is up to how many pairs of an image and a namespace are read to tell which images are visible.
const fewVisible = 1000

// readVisible reads since when images are visible, and in how many of the namespaces; nil if all are, if others are chosen, or if these are too many.
func (s *Store) readVisible(tx *gorm.DB, chosen place) (visible visibleTimes, places map[int64]int, err error) {
	if chosen.in.All() || chosen.Where != (store.Where{}) {
		return nil, nil, nil
	}
	visible, places = visibleTimes{}, map[int64]int{}
	number := 0
	err = eachRow(visibleImages(tx, chosen.in).Select("m.image_pk, m.since").Limit(s.fewVisible+1), func(scan func(...any) error) error {
		var image, since int64
		if err := scan(&image, &since); err != nil {
			return err
		}
		if known, found := visible[image]; !found || since < known {
			visible[image] = since
		}
		places[image]++
		number++
		return nil
	})
	if err != nil || number > s.fewVisible {
		return nil, nil, err
	}
	return visible, places, nil
}

// limitImages takes out of images that are visible in some namespaces what follows from others.
func limitImages(tx *gorm.DB, in store.Namespaces, rows []imageRow, visible visibleTimes) error {
	if in.All() {
		return nil
	}
	ids := make([]int64, len(rows))
	var failed []int64
	for i := range rows {
		if ids[i] = rows[i].ID; rows[i].Message != "" {
			failed = append(failed, rows[i].ID)
		}
	}
	failedFor := map[int64]string{}
	if visible == nil {
		visible = make(visibleTimes, len(rows))
		if err := eachSince(tx, in, ids, func(image, at int64) { visible[image] = at }); err != nil {
			return err
		}
	}
	err := inParts(failed, func(part []int64) error {
		var found []struct {
			ImagePk   int64
			Namespace string
		}
		err := tx.Raw("SELECT image_pk, namespace FROM image_failures WHERE image_pk IN ?", part).Scan(&found).Error
		for _, one := range found {
			failedFor[one.ImagePk] = one.Namespace
		}
		return err
	})
	for i := range rows {
		rows[i].limit(in, visible[rows[i].ID], failedFor[rows[i].ID])
	}
	return err
}

// limit takes out what follows from other namespaces. since is from when on the image is visible, and the last failed attempt at it was made for the namespace
// failedFor. Nothing happened before the image was visible, and its findings are those since it was matched.
func (r *imageRow) limit(in store.Namespaces, since int64, failedFor string) {
	r.FirstSeen = max(r.FirstSeen, since)
	for _, at := range []*int64{&r.CatalogedAt, &r.MatchedAt} {
		if *at != 0 {
			*at = max(*at, since)
		}
	}
	r.limited = true
	if !in.Contains(r.ScannedIn) {
		r.ScannedIn = ""
	}
	if !in.Contains(failedFor) && r.Reason != string(model.ReasonMatchFailed) {
		r.Message = ""
	}
}

// findingsSince is from when on the image has findings.
func (r *imageRow) findingsSince() int64 {
	if r.limited {
		return max(r.FirstSeen, r.MatchedAt)
	}
	return r.FirstSeen
}

// noteNamespaces notes the namespaces of uses as those in which their images are visible.
func noteNamespaces(tx *txn, added []useRow) error {
	images := make([]int64, len(added))
	for i := range added {
		images[i] = added[i].ImagePk
	}
	slices.Sort(images)
	type pair struct {
		Namespace string
		ImagePk   int64
	}
	known := map[pair]bool{{}: true}
	err := inParts(slices.Compact(images), func(part []int64) error {
		var rows []pair
		err := tx.Raw("SELECT namespace, image_pk FROM image_namespaces WHERE image_pk IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			known[row] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	var values []any
	for i := range added {
		if one := (pair{added[i].Namespace, added[i].ImagePk}); one.Namespace != "" && !known[one] {
			known[one] = true
			values = append(values, one.Namespace, one.ImagePk, tx.now)
		}
	}
	if err := tx.Insert("image_namespaces", []string{"namespace", "image_pk", "since"}, values, ""); err != nil {
		return err
	}
	return tx.Insert("introductions", []string{"namespace", "image_pk", "at"}, values, tx.Dialect.IgnoreConflict("image_pk", "namespace"))
}

// endNamespaces ends that images are visible where nothing runs them and no scope keeps them any more.
func endNamespaces(tx *txn, images []int64) error {
	slices.Sort(images)
	tx.moved(images...)
	return inParts(slices.Compact(images), func(part []int64) error {
		err := tx.Execute(`DELETE FROM image_namespaces WHERE image_pk IN ?
			AND NOT EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = image_namespaces.image_pk AND u.namespace = image_namespaces.namespace)
			AND NOT EXISTS (SELECT 1 FROM namespace_last_uses l WHERE l.image_pk = image_namespaces.image_pk AND l.namespace = image_namespaces.namespace)`, part)
		if err != nil {
			return err
		}
		return tx.Execute(`DELETE FROM introductions WHERE image_pk IN ? AND NOT EXISTS (SELECT 1 FROM image_namespaces m
			WHERE m.image_pk = introductions.image_pk AND m.namespace = introductions.namespace)`, part)
	})
}

// Namespaces implements store.Reader.
func (s *Store) Namespaces(ctx context.Context) ([]string, error) {
	var names []string
	err := s.read(ctx, "list namespaces", func(tx *gorm.DB) error {
		names = nil
		for _, table := range []string{"image_namespaces", "container_coverage", "rollouts", "event_namespaces", "daily_sums"} {
			var found []string
			if err := tx.Raw("SELECT DISTINCT namespace FROM " + table + " WHERE namespace <> ''").Scan(&found).Error; err != nil {
				return err
			}
			names = append(names, found...)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		return nil
	})
	return names, err
}

// ImageNamespaces implements store.Reader.
func (s *Store) ImageNamespaces(ctx context.Context, imageID string) ([]string, error) {
	var names []string
	err := s.read(ctx, "list the namespaces of an image", func(tx *gorm.DB) (err error) {
		names, err = namespacesOf(tx, imageID)
		return err
	})
	return names, err
}

// namespacesOf lists the namespaces in which an image is visible.
func namespacesOf(tx *gorm.DB, imageID string) ([]string, error) {
	var names []string
	err := tx.Raw("SELECT DISTINCT m.namespace FROM image_namespaces m JOIN images i ON i.id = m.image_pk WHERE i.image_id = ? ORDER BY m.namespace",
		imageID).Scan(&names).Error
	return names, err
}

// mayChange is store.ErrOtherNamespaces unless an image that is visible somewhere is visible in these namespaces alone.
func mayChange(tx *gorm.DB, may store.Namespaces, imageID string) error {
	if may.All() {
		return nil
	}
	names, err := namespacesOf(tx, imageID)
	if err != nil {
		return err
	}
	if len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return !may.Contains(name) }) {
		return fmt.Errorf("image %q: %w", imageID, store.ErrOtherNamespaces)
	}
	return nil
}

// sealKeySize is the size of the key in bytes.
const sealKeySize = 32

// SealKey implements store.Reader.
func (s *Store) SealKey(ctx context.Context) ([]byte, error) {
	const what = "read the key of tokens"
	var found string
	read := func(tx *gorm.DB) error {
		return tx.Raw("SELECT content FROM seal_keys WHERE id = 1").Scan(&found).Error
	}
	if err := s.read(ctx, what, read); err != nil {
		return nil, err
	}
	if found == "" {
		var fresh [sealKeySize]byte
		_, _ = rand.Read(fresh[:]) // It never fails: the program ends when the system gives no random numbers.
		err := s.write(ctx, what, func(tx *txn) error {
			err := tx.Insert("seal_keys", []string{"id", "content"}, []any{1, hex.EncodeToString(fresh[:])}, tx.Dialect.IgnoreConflict("id"))
			return errors.Join(err, read(tx.DB))
		})
		if err != nil {
			return nil, err
		}
	}
	key, err := hex.DecodeString(found)
	if err != nil || len(key) != sealKeySize {
		return nil, fmt.Errorf("%s: it is not %d bytes in hexadecimal", what, sealKeySize)
	}
	return key, nil
}

// keepAudience keeps the namespaces of images that are about to be deleted.
func (t *txn) keepAudience(images []int64) error {
	return inParts(images, func(part []int64) error {
		var rows []struct{ ImageID, Platform, Namespace string }
		err := t.Raw("SELECT i.image_id, i.platform, m.namespace FROM images i JOIN image_namespaces m ON m.image_pk = i.id WHERE i.id IN ?", part).Scan(&rows).Error
		if err != nil {
			return err
		}
		for _, row := range rows {
			if t.gone == nil {
				t.gone = map[imageName][]string{}
			}
			name := imageName{row.ImageID, row.Platform}
			t.gone[name] = append(t.gone[name], row.Namespace)
		}
		return nil
	})
}

// imageName names an image as events do.
type imageName struct{ imageID, platform string }

// imageEvents are the kinds of events that are told where the image is visible.
var imageEvents = []store.EventKind{
	store.EventImageQueued, store.EventImageCataloged, store.EventImageMatched, store.EventImageFailed, store.EventImageRemoved, store.EventImageReported,
	store.EventScanRequested,
}

// publishAudience writes who is told the events of the transaction, which have the numbers behind last.
func (t *txn) publishAudience(last int64) error {
	kinds := make([]string, len(imageEvents))
	for i, kind := range imageEvents {
		kinds[i] = string(kind)
	}
	var values []any
	ofImages := false
	for i, event := range t.events {
		for _, namespace := range event.namespaces {
			values = append(values, last+int64(i)+1, namespace)
		}
		if !slices.Contains(imageEvents, event.kind) {
			continue
		}
		gone, found := t.gone[event.image]
		for _, namespace := range gone {
			values = append(values, last+int64(i)+1, namespace)
		}
		ofImages = ofImages || !found
	}
	if err := t.Insert("event_namespaces", []string{"seq", "namespace"}, values, ""); err != nil || !ofImages {
		return err
	}
	return t.Execute(`INSERT INTO event_namespaces (seq, namespace) SELECT DISTINCT e.seq, m.namespace FROM events e
		JOIN images i ON i.image_id = e.image_id AND (e.platform = i.platform OR e.platform = '') JOIN image_namespaces m ON m.image_pk = i.id
		WHERE e.seq > ? AND e.kind IN ?`, last, kinds)
}

// eventNamespaces reads who is told events, by their number.
func eventNamespaces(tx *gorm.DB, first, last int64) (map[int64][]string, error) {
	names := map[int64][]string{}
	err := eachRow(tx.Table("event_namespaces AS n").Select("n.seq, n.namespace").Where("n.seq >= ? AND n.seq <= ?", first, last).Order("n.seq, n.namespace"),
		func(scan func(...any) error) error {
			var seq int64
			var name string
			if err := scan(&seq, &name); err != nil {
				return err
			}
			names[seq] = append(names[seq], name)
			return nil
		})
	return names, err
}
