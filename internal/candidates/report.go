package candidates

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
)

const (
	// MaxReportedSBOMs bounds all SBOMs of a Report together, in bytes.
	MaxReportedSBOMs = 30 << 20
	// maxListed bounds Report.Listed.
	maxListed = 100_000
)

// Report is what a scan pod tells the operator about newer tags, in JSON.
type Report struct {
	// Source is the repository whose tags were listed if it is another one than that of the image: that of a mirror.
	Source string `json:"source,omitempty"`
	// Listed counts the tags that were listed, and Incomplete says why some can be missing, "" if none is.
	Listed     int    `json:"listed"`
	Incomplete string `json:"incomplete,omitempty"`
	// Reason and Message are those of a Choice.
	Reason  Reason        `json:"reason,omitempty"`
	Message string        `json:"message,omitempty"`
	Tags    []ReportedTag `json:"tags"`
}

// ReportedTag is a newer tag in a Report.
type ReportedTag struct {
	Candidate
	// Digest is that of the image that the tag had, "" if it is not known.
	Digest string `json:"digest,omitempty"`
	// Problem says why the image was not cataloged, "" if it was, now or before.
	Problem string `json:"problem,omitempty"`
	// SBOM is in the JSON format of Syft, compressed with zstd; none if the operator has the SBOM of the image.
	SBOM []byte `json:"sbom,omitempty"`
}

var reportedDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// ReadReport decodes a report and checks that it can be one of this program. It does not read the SBOMs.
func ReadReport(content []byte) (*Report, error) {
	var report Report
	if err := json.Unmarshal(content, &report); err != nil {
		return nil, fmt.Errorf("decode newer tags: %w", err)
	}
	if report.Listed < 0 || report.Listed > maxListed || len(report.Tags) > MaxLimit {
		return nil, fmt.Errorf("%d newer tags of %d: at most %d of %d are valid", len(report.Tags), report.Listed, MaxLimit, maxListed)
	}
	if (report.Reason != "") != (len(report.Tags) == 0) || report.Reason != "" && report.Reason != ReasonNoVersion && report.Reason != ReasonNewest {
		return nil, fmt.Errorf("%d newer tags with the reason %.40q", len(report.Tags), report.Reason)
	}
	size, seen := 0, map[string]bool{}
	for i := range report.Tags {
		tag := &report.Tags[i]
		size += len(tag.SBOM)
		switch {
		case !tagPattern.MatchString(tag.Tag) || seen[tag.Tag]:
			return nil, fmt.Errorf("%.200q is no tag, or comes twice", tag.Tag)
		case tag.Kind != KindPatch && tag.Kind != KindMinor && tag.Kind != KindMajor:
			return nil, fmt.Errorf("the tag %s is of the kind %.40q", tag.Tag, tag.Kind)
		case tag.Digest != "" && !reportedDigest.MatchString(tag.Digest) || tag.Digest == "" && tag.Problem == "":
			return nil, fmt.Errorf("the tag %s has the digest %.200q", tag.Tag, tag.Digest)
		case tag.Problem != "" && tag.SBOM != nil:
			return nil, fmt.Errorf("the tag %s has an SBOM, and a problem that kept it from having one", tag.Tag)
		case size > MaxReportedSBOMs:
			return nil, errors.New("the SBOMs are too large")
		}
		seen[tag.Tag] = true
	}
	return &report, nil
}
