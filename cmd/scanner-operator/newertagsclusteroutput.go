package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// What "newer-tags" prints about the images that run.

// Bounds of the output for terminals: images without a recommendation, and the length of a reason.
const (
	maxReasons = 200
	maxReason  = 500
)

// clusterTags is the output in JSON.
type clusterTags struct {
	// Images begin with those whose recommended tag removes the most risk; those without a recommendation follow.
	Images   []*clusterImage      `json:"images"`
	Database *model.DatabaseBuild `json:"database,omitempty"`

	listOnly bool
}

// clusterImage is an image that runs.
type clusterImage struct {
	Workloads []clusterWorkload `json:"workloads"`
	Reference string            `json:"reference"`
	ImageID   string            `json:"imageId,omitempty"`
	Platform  string            `json:"platform,omitempty"`
	State     clusterState      `json:"state"`
	// Message says why no tag is recommended.
	Message string `json:"message,omitempty"`
	// Found has the newer tags.
	Found *newerTags `json:"newerTags,omitempty"`

	tag     name.Tag
	current name.Reference
}

type clusterWorkload struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
}

// clusterState says what is known about the newer tags of an image.
type clusterState string

// The states. The last three are errors.
const (
	clusterRecommended    clusterState = "Recommended"
	clusterListed         clusterState = "Listed"
	clusterNotRecommended clusterState = "NotRecommended"
	clusterNewest         clusterState = "Newest"
	clusterNoVersion      clusterState = "NoVersion"
	clusterLeftOut        clusterState = "LeftOut"
	clusterNotListed      clusterState = "NotListed"
	clusterNotScanned     clusterState = "NotScanned"
	clusterRateLimited    clusterState = "RateLimited"
)

func (w clusterWorkload) compare(other clusterWorkload) int {
	return cmp.Or(cmp.Compare(w.Namespace, other.Namespace), cmp.Compare(w.Kind, other.Kind), cmp.Compare(w.Name, other.Name))
}

// compare orders images by repository, so that those of one repository are neighbors.
func (c *clusterImage) compare(other *clusterImage) int {
	return cmp.Or(cmp.Compare(c.repository(), other.repository()), cmp.Compare(c.Reference, other.Reference), cmp.Compare(c.ImageID, other.ImageID),
		cmp.Compare(c.Platform, other.Platform))
}

func (c *clusterImage) repository() string {
	if c.tag.TagStr() == "" {
		return ""
	}
	return c.tag.Context().Name()
}

// fail notes why an image was not compared.
func (c *clusterImage) fail(state clusterState, limited map[string]error, err error) {
	c.State, c.Message = state, err.Error()
	if limited[c.tag.Context().RegistryStr()] != nil {
		c.State = clusterRateLimited
	}
}

// conclude sets the state of an image that was compared.
func (c *clusterImage) conclude(limited map[string]error) {
	failed := c.Found.failed()
	switch {
	case c.Found.best != nil:
		c.State = clusterRecommended
	case failed > 0:
		c.State = clusterNotScanned
		if limited[c.tag.Context().RegistryStr()] != nil {
			c.State = clusterRateLimited
		}
	default:
		c.State = clusterNotRecommended
	}
	if failed == 0 && c.State == clusterRecommended {
		return
	}
	c.Message = c.Found.advice(failed)
	if failed > 0 {
		first := slices.IndexFunc(c.Found.Candidates, func(t newerTag) bool { return t.Error != "" })
		c.Message = fmt.Sprintf("%d of %d newer tags could not be compared: %s: %s", failed, len(c.Found.Candidates), c.Found.Candidates[first].Tag, c.Found.Candidates[first].Error)
	}
}

// removed is the risk that the recommended tag removes.
func (c *clusterImage) removed() int64 {
	if c.Found == nil || c.Found.best == nil {
		return 0
	}
	return c.Found.best.upgrade.Removed
}

// order sorts the images by what the recommended tags remove.
func (a *clusterTags) order() {
	rank := func(c *clusterImage) int {
		if c.State == clusterRecommended || c.State == clusterListed {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(a.Images, func(x, y *clusterImage) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(y.removed(), x.removed()), cmp.Compare(x.State, y.State), x.compare(y))
	})
}

// workloads is such as "3, first shop/Deployment web".
func (c *clusterImage) workloads() string {
	w := c.Workloads[0]
	first := fmt.Sprintf("%s/%s %s", cell(w.Namespace), cell(w.Kind), cell(w.Name))
	if len(c.Workloads) == 1 {
		return "1 (" + first + ")"
	}
	return fmt.Sprintf("%d (%s, …)", len(c.Workloads), first)
}

// write writes the images for terminals.
func (a *clusterTags) write(w io.Writer) error {
	if len(a.Images) == 0 {
		_, err := fmt.Fprintln(w, "No containers run there, or you may not see them.")
		return err
	}
	first := slices.IndexFunc(a.Images, func(c *clusterImage) bool { return c.State != clusterRecommended && c.State != clusterListed })
	if first < 0 {
		first = len(a.Images)
	}
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if first > 0 {
		header := "WORKLOADS\tIMAGE:TAG\tNEWER TAG\tKIND\tCLOSES\tOPENS"
		if a.listOnly {
			header = "WORKLOADS\tIMAGE:TAG\tNEWER TAG\tKIND"
		}
		_, _ = fmt.Fprintln(lines, header) // an error of the writer stays until the end
	}
	for _, image := range a.Images[:first] {
		if a.listOnly {
			for _, c := range image.Found.Candidates {
				_, _ = fmt.Fprintln(lines, strings.Join([]string{image.workloads(), cell(image.Reference), c.Tag, string(c.Kind)}, "\t"))
			}
			continue
		}
		best := image.Found.best
		_, _ = fmt.Fprintln(lines, strings.Join([]string{
			image.workloads(), cell(image.Reference), best.Tag, string(best.Kind), best.Closed.String(), best.Opened.String(),
		}, "\t"))
	}
	if first > 0 && first < len(a.Images) {
		_, _ = fmt.Fprintln(lines)
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	for _, image := range a.Images[:first] {
		if image.Message != "" {
			if _, err := fmt.Fprintf(w, "Incomplete: %s: %s\n", cell(image.Reference), oneLine(image.Message)); err != nil {
				return err
			}
		}
	}
	return a.writeReasons(w, a.Images[first:])
}

// writeReasons writes why no tag is recommended for images.
func (a *clusterTags) writeReasons(w io.Writer, rest []*clusterImage) error {
	if len(rest) == 0 {
		return nil
	}
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(lines, "WORKLOADS\tIMAGE:TAG\tSTATE\tREASON") // an error of the writer stays until the end
	for _, image := range rest[:min(len(rest), maxReasons)] {
		_, _ = fmt.Fprintln(lines, strings.Join([]string{image.workloads(), cell(image.Reference), string(image.State), oneLine(image.Message)}, "\t"))
	}
	if err := lines.Flush(); err != nil || len(rest) <= maxReasons {
		return err
	}
	_, err := fmt.Fprintf(w, "%d more images have no recommendation: use -o json to see them.\n", len(rest)-maxReasons)
	return err
}

// oneLine bounds a reason, which can repeat a reference.
func oneLine(text string) string {
	return truncate.Ellipsis(strings.ReplaceAll(printableText(text), "\n", " "), maxReason)
}

// result returns an error if images could not be compared. What --max-images leaves out is no error: the caller chose the bound.
func (a *clusterTags) result() error {
	failed := 0
	for _, image := range a.Images {
		switch image.State {
		case clusterNotListed, clusterNotScanned, clusterRateLimited:
			failed++
		case clusterRecommended:
			if image.Message != "" {
				failed++
			}
		default:
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d images could not be compared completely", failed, len(a.Images))
	}
	return nil
}
