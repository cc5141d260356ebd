package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/candidates"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// What "newer-tags" prints.

// newerTags is the output in JSON.
type newerTags struct {
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
	// Mirror is the repository that listed the tags, if it is another one.
	Mirror string `json:"mirror,omitempty"`
	// Listed is the number of tags that were listed. Incomplete says why there can be more.
	Listed     int    `json:"listedTags"`
	Incomplete string `json:"incomplete,omitempty"`
	// Reason and Message say why there are no candidates.
	Reason     candidates.Reason `json:"reason,omitempty"`
	Message    string            `json:"message,omitempty"`
	From       *diffSide         `json:"from,omitempty"`
	Candidates []newerTag        `json:"candidates"`
	// Recommended is a tag, "" if none is recommended.
	Recommended string               `json:"recommended,omitempty"`
	Database    *model.DatabaseBuild `json:"database,omitempty"`

	listOnly bool
	best     *newerTag
}

// newerTag is a newer tag in the output.
type newerTag struct {
	candidates.Candidate
	// Image has the digest instead of the tag.
	Image string `json:"image,omitempty"`
	// Error is why the tag could not be compared.
	Error string `json:"error,omitempty"`
	*upgradeOutput
	upgrade *advice.Upgrade
}

// upgradeOutput is what a newer tag does to findings. The list of what remains is that of the image without what is closed.
type upgradeOutput struct {
	Opened       tagCounts       `json:"opened"`
	Closed       tagCounts       `json:"closed"`
	Remaining    tagCounts       `json:"remaining"`
	OpenedDetail []advice.Change `json:"openedVulnerabilities"`
	ClosedDetail []advice.Change `json:"closedVulnerabilities"`
}

// tagCounts counts vulnerabilities.
type tagCounts struct {
	model.SeverityCounts
	// KEV counts those that are known to be exploited.
	KEV int `json:"kev"`
}

func countTag(changes []advice.Change) tagCounts {
	counts := tagCounts{SeverityCounts: advice.Count(changes)}
	for i := range changes {
		if changes[i].KEV {
			counts.KEV++
		}
	}
	return counts
}

// String is such as "3 (1 Critical, 2 Low; 1 KEV)".
func (c tagCounts) String() string {
	text := countText(c.SeverityCounts)
	if c.KEV == 0 {
		return text
	}
	return strings.TrimSuffix(text, ")") + fmt.Sprintf("; %d KEV)", c.KEV)
}

func (c *newerTag) set(image string, upgrade *advice.Upgrade) {
	c.Image, c.upgrade = image, upgrade
	c.upgradeOutput = &upgradeOutput{
		Opened: countTag(upgrade.Opened), Closed: countTag(upgrade.Closed), Remaining: countTag(upgrade.Remaining),
		OpenedDetail: append([]advice.Change{}, upgrade.Opened...), ClosedDetail: append([]advice.Change{}, upgrade.Closed...),
	}
}

func (n *newerTags) recommend() {
	upgrades := make([]*advice.Upgrade, len(n.Candidates))
	for i := range n.Candidates {
		upgrades[i] = n.Candidates[i].upgrade
	}
	if best := advice.Best(upgrades); best >= 0 {
		n.best, n.Recommended = &n.Candidates[best], n.Candidates[best].Tag
	}
}

// write writes the newer tags for terminals.
func (n *newerTags) write(w io.Writer) error {
	if len(n.Candidates) == 0 {
		_, err := fmt.Fprintf(w, "No newer tags: %s.\n", printableText(n.Message))
		return err
	}
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := "TAG\tKIND\tOPENS\tCLOSES\tREMAINS"
	if n.listOnly {
		header = "TAG\tKIND"
	}
	_, _ = fmt.Fprintln(lines, header) // an error of the writer stays until the end
	failed := 0
	for i := range n.Candidates {
		c := &n.Candidates[i]
		cells := []string{c.Tag, string(c.Kind)}
		switch {
		case n.listOnly:
		case c.Error != "":
			failed++
			cells = append(cells, "-", "-", "-")
		default:
			cells = append(cells, c.Opened.String(), c.Closed.String(), c.Remaining.String())
		}
		_, _ = fmt.Fprintln(lines, strings.Join(cells, "\t"))
	}
	if err := lines.Flush(); err != nil || n.listOnly {
		return err
	}
	_, _ = fmt.Fprintln(w)
	for i := range n.Candidates {
		if c := &n.Candidates[i]; c.Error != "" {
			_, _ = fmt.Fprintf(w, "%s could not be compared: %s\n", c.Tag, printableText(c.Error))
		}
	}
	_, err := fmt.Fprintln(w, n.advice(failed))
	return err
}

// advice is one sentence that recommends a tag, or none.
func (n *newerTags) advice(failed int) string {
	switch {
	case n.best != nil:
		opened := "none"
		if total := n.best.Opened.Total(); total > 0 {
			opened = fmt.Sprintf("%d, none of which is High, Critical or known to be exploited", total)
		}
		return fmt.Sprintf("Recommended: %s, which closes %d vulnerabilities and opens %s.", n.best.Tag, n.best.Closed.Total(), opened)
	case failed == len(n.Candidates):
		return "No tag is recommended, because none could be compared."
	default:
		return "No tag is recommended: none removes risk without opening vulnerabilities that are High, Critical or known to be exploited."
	}
}

// failed is the number of newer tags that could not be compared.
func (n *newerTags) failed() (count int) {
	for i := range n.Candidates {
		if n.Candidates[i].Error != "" {
			count++
		}
	}
	return count
}

// result returns an error if something is not known: tags that could not be compared, or tags that were not listed while none of the listed ones is newer.
func (n *newerTags) result() error {
	failed := n.failed()
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d newer tags could not be compared", failed, len(n.Candidates))
	case len(n.Candidates) == 0 && n.Incomplete != "":
		return fmt.Errorf("the list of tags is incomplete (%s), and none of the %d listed tags is newer: compare with a tag that you know, with \"diff\"", n.Incomplete, n.Listed)
	}
	return nil
}
