package matching

import (
	"fmt"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// The reasons of Matcher.Missing.
const (
	// ReasonNoDatabase: there is no vulnerability database, and there never was one.
	ReasonNoDatabase = "NoDatabase"
	// ReasonNotInstalled: this replica has no vulnerability database, although findings come from one.
	ReasonNotInstalled = "NotInstalled"
	// ReasonOutdated: those that it has are older than the one that the findings come from.
	ReasonOutdated = "Outdated"
)

// missing says why new packages cannot be matched; the zero value says that they can.
type missing struct{ reason, message string }

// Missing says why this replica cannot match new packages, as the reason and the message of a condition; "" when it can, and before Run
// looked.
func (a *Matcher) Missing() (reason, message string) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.missing.reason, a.missing.message
}

// follows says that a build may replace the one that the visible findings come from. An older one may only if an administrator allowed
// that since then: another replica may have been left with it. The sample database replaces no other one.
func follows(build vulndb.Installed, current store.ResultSet) bool {
	if build.Build.Source == model.DatabaseSourceSample && current.Build.Source != model.DatabaseSourceSample {
		return false
	}
	return current.Build.Source == model.DatabaseSourceSample || !build.Build.Built.Before(current.Build.Built) ||
		build.AllowOlder && build.InstalledAt.After(current.CurrentSince)
}

// target is the build to match with: that of the library if it may replace the one that the visible findings come from, else that one, if it is
// installed.
func (a *Matcher) target(current store.ResultSet) (vulndb.Installed, bool) {
	newest, found := a.library.Current()
	if found && follows(newest, current) {
		return newest, true
	}
	return a.library.Installed(current.Build.ID)
}

// lacking says what r lacks to match; current is nil when nothing was matched yet.
func (r *runner) lacking(current *store.ResultSet) missing {
	if current == nil {
		return missing{ReasonNoDatabase, "No vulnerability database is available yet."}
	}
	if _, found := r.target(*current); found {
		return missing{}
	}
	reason, has := ReasonNotInstalled, "none"
	if newest, found := r.library.Current(); found {
		reason, has = ReasonOutdated, "only "+describe(newest.Build)
	}
	return missing{reason, fmt.Sprintf("The findings come from %s, and the leading replica of the operator has %s. "+
		"New images are matched when it has a build that is not older.", describe(current.Build), has)}
}

func describe(build model.DatabaseBuild) string {
	return fmt.Sprintf("the %s vulnerability database that was built on %s", build.Source, build.Built.UTC().Format(time.RFC3339))
}

// report keeps and logs what is missing, if that changed.
func (r *runner) report(now missing) {
	r.mu.Lock()
	before := r.missing
	r.missing = now
	r.mu.Unlock()
	if now == before {
		return
	}
	if now.reason != "" {
		r.log.Info("No usable vulnerability database", "reason", now.reason, "detail", now.message)
	} else {
		r.log.Info("A usable vulnerability database is available")
	}
	if r.MissingChanged != nil {
		r.MissingChanged()
	}
}
