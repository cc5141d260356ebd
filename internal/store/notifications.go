package store

import (
	"context"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Notifications is the part of the store about messages to people. Each rule has a position in the event log. What a rule says of the events up to there
// was sent, dropped, or is a message of the store: a position moves in the transaction that writes the messages.
type Notifications interface {
	// SyncNotificationRules makes these the rules; the list is complete. A new rule begins at the end of the event log. The messages of rules and sinks
	// that are not in the list are deleted. When nothing differs it only reads.
	SyncNotificationRules(ctx context.Context, rules []NotificationRule) error
	// NotificationCursors returns the positions of all rules.
	NotificationCursors(ctx context.Context) ([]NotificationCursor, error)
	// SkipNotifications moves rules that are at one position to a later one, because the events between have nothing for them. Rules that are elsewhere stay.
	SkipNotifications(ctx context.Context, rules []string, from, to int64) error
	// CollectingNotifications returns the messages of a rule that are not sealed and not ready before a time: more can be added to them.
	CollectingNotifications(ctx context.Context, rule string, after time.Time) ([]NotificationMessage, error)
	// QueueNotifications moves a rule from a position to another one, with what it counts, and writes messages: those with an ID replace the content and ReadyAt of
	// that one, the others are new. It returns false, and changes nothing, if the rule is at another position, or a message with an ID is sealed or gone.
	QueueNotifications(ctx context.Context, from, to NotificationCursor, messages []NotificationMessage) (bool, error)
	// HastenNotifications makes messages ready that would be ready after the time that is given for their rule: at that time. They are those of a group or, with
	// others, of all other groups than some. When there are none it only reads.
	HastenNotifications(ctx context.Context, latest map[string]time.Time, groups []string, others bool) error
	// NotificationQueues returns the state of each sink of each rule.
	NotificationQueues(ctx context.Context) ([]NotificationQueue, error)
	// SealNotification returns the message of a sink that is ready first, nil if none is ready at that time. Its content does not change any more. If it
	// was not sealed before, its content becomes what revise makes of it; it is deleted if that is nil, and the next one is returned.
	SealNotification(ctx context.Context, rule, sink string, now time.Time, revise func(content []byte) ([]byte, error)) (*NotificationMessage, error)
	// EndNotification deletes a sealed message, which was delivered at that time, or which is dropped if delivered is the zero time.
	EndNotification(ctx context.Context, message *NotificationMessage, delivered time.Time) error
	// PlacedChanges returns a page of the changes of the result set that became current at a time with a build, the worst first, with all that runs the
	// images which they are about. Images that were not matched before, namespaces in which they were not known before, and places in which decisions suppress
	// the finding now are left out; of a closed finding, those in which decisions suppressed it when it was closed, which is known for a day.
	PlacedChanges(ctx context.Context, build string, at time.Time, page Page) (PlacedChangePage, error)
	// SuppressedChanges returns those of some changes, by ID, whose finding decisions suppress now in all workloads that run it and that are concerned; if
	// none runs it, in all images. A change that closed a finding is as PlacedChanges says; a change of a finding that a later build closed is not
	// suppressed.
	SuppressedChanges(ctx context.Context, changes []int64, concerned func(*Workload) bool) ([]int64, error)
	// OverdueFindings returns the findings of images that are overdue now for who sees some namespaces. Images without any are absent.
	OverdueFindings(ctx context.Context, in Namespaces, images []model.ImageKey) (map[model.ImageKey][]OverdueFinding, error)
	// PresentRollouts compares the images of evaluated rollouts again, by ID, without the findings that decisions suppress now. Rollouts of which an image is not
	// known any more are absent.
	PresentRollouts(ctx context.Context, ids []int64) (map[int64]RolloutCounts, error)
	// PresentIntroductions counts the findings of images in namespaces, without those that decisions suppress there now. Images that are not matched or not known
	// any more are absent.
	PresentIntroductions(ctx context.Context, introductions []Introduction) (map[Introduction]Counts, error)
	// RunningImage returns what runs an image in namespaces, nil if the image is not known.
	RunningImage(ctx context.Context, in Namespaces, key model.ImageKey) (*RunningImage, error)
}

// NotificationRule is a rule with the names of its sinks.
type NotificationRule struct {
	// UID is that of the object.
	UID   string
	Sinks []string
}

// NotificationCursor is the position of a rule in the event log.
type NotificationCursor struct {
	Rule string
	// Sequence is the number of the last event that was read.
	Sequence int64
	// Hour is an hour, and Begun counts the messages that began in it.
	Hour  time.Time
	Begun int
}

// NotificationMessage is a message that waits for a sink.
type NotificationMessage struct {
	// ID is 0 for a new message.
	ID         int64
	Rule, Sink string
	// Group tells the messages of a rule apart that more can be added to; at most 64 bytes.
	Group string
	// Key identifies the message to its receiver: it is the same each time that the message is sent; at most 64 bytes.
	Key     string
	ReadyAt time.Time
	Content []byte
}

// NotificationQueue is the state of a sink of a rule.
type NotificationQueue struct {
	Rule, Sink string
	// Pending counts the messages. NextReady is when the first of them is or was ready, zero without any.
	Pending   int
	NextReady time.Time
	// DeliveredAt is when the last message was delivered, zero if none was.
	DeliveredAt        time.Time
	Delivered, Dropped int64
}

// PlacedChangePage is a page of changes.
type PlacedChangePage struct {
	Changes   []PlacedChange
	NextToken string
}

// PlacedChange is a change with all images that it is about and what runs them. Its Images, ImageIDs and Workloads are not set.
type PlacedChange struct {
	Change
	Running []*RunningImage
}

// RunningImage is an image with the workloads that run it, each once, in order. Changes share it.
type RunningImage struct {
	model.ImageKey
	Workloads []Workload
	// Partial says that workloads are left out, because decisions suppress there what the change is about. The changes of a page that the same decisions
	// suppress share it.
	Partial bool
}
