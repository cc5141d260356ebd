package notify

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"time"
	_ "time/tzdata" // The image has no time zones.

	"github.com/robfig/cron/v3"
)

// maxSchedule bounds the text of a schedule, in bytes.
const maxSchedule = 100

var (
	// fields are five fields of cron, as in CronJobs: nothing else that the parser knows, such as a time zone.
	fields = regexp.MustCompile(`^[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4}$`)
	parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
)

// schedule tells when digests are sent.
type schedule struct {
	cron.Schedule
	zone *time.Location
}

// newSchedule reads a cron expression with five fields and the name of a time zone; nil without an expression.
func newSchedule(text, zone string) (*schedule, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // There is none.
	}
	if len(text) > maxSchedule || !fields.MatchString(text) {
		return nil, fmt.Errorf("schedule: %.100q is not a cron expression with the five fields minute, hour, day, month and weekday, of at most %d bytes", text, maxSchedule)
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	if zone == "Local" {
		return nil, errors.New("timeZone: Local is not the name of a time zone, such as Europe/Budapest")
	}
	location, err := time.LoadLocation(cmp.Or(zone, "UTC"))
	if err != nil {
		return nil, fmt.Errorf("timeZone: %.64q is not the name of a time zone, such as Europe/Budapest", zone)
	}
	s := &schedule{parsed, location}
	if s.after(time.Now()).IsZero() {
		return nil, fmt.Errorf("schedule: %q is at no time of the next five years", text)
	}
	return s, nil
}

// after is the next time of a digest, zero if there is none within five years.
func (s *schedule) after(now time.Time) time.Time { return s.Next(now.In(s.zone)) }

// readyAt is when a message that begins now is sent.
func (r *Rule) readyAt(now time.Time) time.Time {
	if r.digests == nil {
		return now.Add(r.Window)
	}
	if at := r.digests.after(now); !at.IsZero() {
		return at
	}
	return now
}

// combinedAt is when the changes are sent that have no message of their own: at the end of the hour, or with the next digest; of digests that come several
// times in the hour, with the first one after its end.
func (r *Rule) combinedAt(now time.Time) time.Time {
	end := now.Truncate(time.Hour).Add(time.Hour)
	if r.digests == nil {
		return end
	}
	at := r.readyAt(now)
	if again := r.digests.after(at); again.IsZero() || !again.Before(end) {
		return at
	}
	return r.readyAt(end.Add(-time.Nanosecond))
}

// full reports whether no message may begin, after so many that began in the hour and with so many that are collected. Those of a digest are collected
// together, however long that takes.
func (r *Rule) full(begun, collecting int) bool {
	if r.digests == nil {
		return begun >= r.MessagesPerHour
	}
	return collecting >= r.MessagesPerHour
}
