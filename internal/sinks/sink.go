package sinks

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Bounds and defaults of sinks.
const (
	// MaxSinks is the most sinks.
	MaxSinks = 10
	// DefaultPerMinute is the number of deliveries in a minute where none is given, MaxPerMinute the most.
	DefaultPerMinute = 120
	MaxPerMinute     = 6000
	// DefaultResync is the time between two deliveries of everything where none is given. It is from MinResync to MaxResync.
	DefaultResync = 24 * time.Hour
	MinResync     = time.Hour
	MaxResync     = 720 * time.Hour
	// maxImages is the most images of one item.
	maxImages = 200
	// maxLabels is the most tags of one item.
	maxLabels = 50
)

// Type is a type of sinks.
type Type string

// The types.
const (
	TypeDependencyTrack Type = "dependencyTrack"
	TypeDefectDojo      Type = "defectDojo"
	TypeS3              Type = "s3"
	TypePolicyReport    Type = "policyReport"
)

// Definition is what an object says of a sink. Exactly one of the types is set.
type Definition struct {
	// UID and Name are those of the object.
	UID, Name string
	// Namespaces are those whose workloads are reported, and Images patterns as of decision.ParseImagePattern, none for all images.
	Namespaces store.Namespaces
	Images     []string
	// PerMinute is the most deliveries that begin in a minute, Resync the time between two deliveries of everything; 0 for the defaults.
	PerMinute int
	Resync    time.Duration

	DependencyTrack *DependencyTrack
	DefectDojo      *DefectDojo
	S3              *S3
	PolicyReport    *PolicyReport
}

// DependencyTrack is a server of OWASP Dependency-Track. Texts with placeholders are templates.
type DependencyTrack struct {
	Credential string
	// ProjectName and ProjectVersion are templates: images with the same result are in one project.
	ProjectName, ProjectVersion string
	// Tags are templates.
	Tags []string
	// ParentName and ParentVersion name the project that new projects are below, "" for none.
	ParentName, ParentVersion string
}

// DefectDojo is a server of DefectDojo. Product, Engagement and Test are templates: images with the same result are in one test.
type DefectDojo struct {
	Credential                             string
	ProductType, Product, Engagement, Test string
	// MinSeverity is the lowest severity of findings as DefectDojo names it, "" for all.
	MinSeverity string
}

// S3 is a bucket of a server with the interface of Amazon S3.
type S3 struct {
	Credential, Bucket, Region string
	// Key is a template of the keys of objects, without the extension of the format.
	Key     string
	Formats []report.Format
	// Delete deletes the objects of images that run no more, and of formats that are removed from Formats.
	Delete bool
}

// PolicyReport writes objects of the kind Report (openreports.io) into the namespaces of workloads.
type PolicyReport struct {
	// MaxResults is how many findings an object has at most.
	MaxResults int
	// MaxObjects is how many objects there are at most, with those that are still to be deleted. Those that exist stay; of the others, those of the worst workloads are written first.
	MaxObjects int
}

// Sink is a definition that can be applied. NewSink makes one.
type Sink struct {
	Definition
	Type     Type
	images   *decision.ImageMatcher
	parts    []*template
	labels   []*template
	receiver receiver
	// reports removes policy reports, nil if that is not permitted.
	reports *policyReports
}

// NewSink reads a definition. Errors say what is wrong with it.
func (f *Factory) NewSink(d Definition) (*Sink, error) {
	s := &Sink{Definition: d}
	s.PerMinute, s.Resync = cmp.Or(d.PerMinute, DefaultPerMinute), cmp.Or(d.Resync, DefaultResync)
	if s.PerMinute < 1 || s.PerMinute > MaxPerMinute {
		return nil, fmt.Errorf("deliveriesPerMinute: %d is not from 1 to %d", s.PerMinute, MaxPerMinute)
	}
	if s.Resync < MinResync || s.Resync > MaxResync {
		return nil, fmt.Errorf("resyncInterval: %s is not from %s to %s", s.Resync, MinResync, MaxResync)
	}
	var err error
	if len(d.Images) > 0 {
		if s.images, err = decision.NewImageMatcher(d.Images); err != nil {
			return nil, fmt.Errorf("images: %w", err)
		}
	}
	if f.PolicyObjects != nil {
		s.reports = &policyReports{f.PolicyObjects, Owner{d.Name, d.UID}, nil}
	}
	var texts, labels []string
	var credential string
	switch {
	case d.DependencyTrack != nil:
		s.Type, credential = TypeDependencyTrack, d.DependencyTrack.Credential
		texts, labels = []string{d.DependencyTrack.ProjectName, d.DependencyTrack.ProjectVersion}, d.DependencyTrack.Tags
		s.receiver = &dependencyTrack{f, d.DependencyTrack}
	case d.DefectDojo != nil:
		s.Type, credential = TypeDefectDojo, d.DefectDojo.Credential
		texts = []string{d.DefectDojo.Product, d.DefectDojo.Engagement, d.DefectDojo.Test}
		s.receiver = &defectDojo{f, d.DefectDojo}
	case d.S3 != nil:
		s.Type, credential = TypeS3, d.S3.Credential
		texts = []string{d.S3.Key}
		s.receiver = &bucket{f, d.S3}
	case d.PolicyReport != nil:
		s.Type, texts = TypePolicyReport, policyTemplates
		if s.reports == nil {
			return nil, fmt.Errorf("%s: the chart value reportSinks.policyReports does not permit it", s.Type)
		}
		spec := *d.PolicyReport
		spec.MaxResults, spec.MaxObjects = cmp.Or(spec.MaxResults, DefaultPolicyResults), cmp.Or(spec.MaxObjects, DefaultPolicyObjects)
		if spec.MaxResults > MaxPolicyResults || spec.MaxObjects > MaxPolicyObjects {
			return nil, fmt.Errorf("%s: more than %d results or %d objects", s.Type, MaxPolicyResults, MaxPolicyObjects)
		}
		s.reports.spec = &spec
		s.receiver = s.reports
	default:
		return nil, errors.New("no type is set")
	}
	if credential != "" && !slices.Contains(f.Config.Credentials, credential) {
		return nil, fmt.Errorf("%s.credential: the chart value reportSinks.credentials has no entry %q", s.Type, credential)
	}
	if s.parts, err = parseTemplates(texts); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Type, err)
	}
	if s.labels, err = parseTemplates(labels); err != nil {
		return nil, fmt.Errorf("%s: tags: %w", s.Type, err)
	}
	return s, nil
}

// remover returns what removes the items of a type, nil for nothing. Policy reports are removed after the sink has got another type, too: it still owns them.
func (s *Sink) remover(of Type) receiver {
	switch {
	case of == s.Type && s.receiver.removes():
		return s.receiver
	case of == TypePolicyReport && s.reports != nil:
		return s.reports
	default:
		return nil
	}
}

// selects reports whether the sink is given reports about an image.
func (s *Sink) selects(imageID string) bool {
	if s.images == nil {
		return true
	}
	image := decision.ImageOf(imageID)
	return s.images.Matches(&image)
}
