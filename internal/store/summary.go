package store

import (
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// MaxSummaryRows bounds SummaryQuery.Limit.
const MaxSummaryRows = 100

// SummaryQuery asks for a summary of what runs. Zero fields of Ownership do not filter.
type SummaryQuery struct {
	// Ownership chooses the workloads.
	Ownership
	// Since is what the present is compared with.
	Since time.Time
	// DueWithin is until when findings count as due soon, from now on; EndOfLifeWithin is until when the end of life of an image is listed. Neither is
	// negative.
	DueWithin, EndOfLifeWithin time.Duration
	// Limit is the most rows of each list, from 0 to MaxSummaryRows.
	Limit int
}

// Summary sums up what some workloads run now. Lists are cut to the limit of the query, and their totals are not.
type Summary struct {
	// Images counts images on all platforms, Scanned those that were matched. Counts are over the images, each once.
	Workloads, Images, Scanned int
	Counts                     Counts
	// Namespaces are those of the workloads, by name, at most MaxNamespaces.
	Namespaces []string
	// KnownSince is since when something of it is known to run, as far as the history goes back; zero if nothing ran before.
	KnownSince time.Time
	// Opened are the vulnerabilities that something here has now and nothing here had at the time that the query compares with; Closed is the other way
	// round. What decisions suppress now is in neither of them. Decisions do not apply to the past.
	Opened, Closed ChangedVulnerabilities
	// Exploited are the vulnerabilities that are known to be exploited.
	Exploited ChangedVulnerabilities
	// Overdue are the findings whose date has passed, DueSoon those that are due next.
	Overdue, DueSoon DueFindings
	// EndOfLife are the images whose distribution has reached its end of life, or will soon, the earliest first; EndOfLifeTotal counts them all.
	EndOfLife      []EndingImage
	EndOfLifeTotal int
}

// ChangeSums is how many vulnerabilities the changes of a Summary have, and its KnownSince.
type ChangeSums struct {
	Opened, Closed model.SeverityCounts
	KnownSince     time.Time
}

// ChangedVulnerabilities are vulnerabilities, each once whatever records of it there are.
type ChangedVulnerabilities struct {
	Counts model.SeverityCounts
	// Worst are the worst of them: by severity, those in KEV before others, and then by ID.
	Worst []ReachedVulnerability
}

// ReachedVulnerability is a vulnerability and what has it here. Of what was closed, only the ID, the severity and KEV are known.
type ReachedVulnerability struct {
	ID       string
	Severity model.Severity
	KEV      bool
	// Fixable says that a fixed version is known for some package that has it.
	Fixable bool
	// Packages names the first packages by name, at most MaxReach; PackageCount counts their names.
	Packages     []string
	PackageCount int
	// Images counts images on all platforms, Workloads what runs them.
	Images, Workloads int
}

// DueFindings are findings that are due. Counts has each once in each image.
type DueFindings struct {
	Counts model.SeverityCounts
	// First are the first of them: the worst if they are overdue, or else the earliest. One of several images is in one entry.
	First []DueFinding
}

// DueFinding is a finding with the earliest of its dates here.
type DueFinding struct {
	VulnerabilityID string
	Severity        model.Severity
	// Package and Version are those of the package; Fixes are the versions without the vulnerability.
	Package, Version string
	Fixes            []string
	DueAt            time.Time
	// Policy is the name of the policy that sets the date.
	Policy string
	// Images counts the images in which it is due.
	Images int
}

// EndingImage is an image with the end of life of its distribution.
type EndingImage struct {
	Image     model.ImageKey
	Distro    string
	EndOfLife time.Time
}
