package sinks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// Bounds of policy reports.
const (
	DefaultPolicyResults = 10
	MaxPolicyResults     = 50
	DefaultPolicyObjects = 500
	MaxPolicyObjects     = 5000
	// maxPolicyText bounds a text of a result, in bytes of JSON: an object has at most 50 times seven of them, so it has less than 100 KiB.
	maxPolicyText = 200
)

// PolicyObjects writes objects of the kind Report (openreports.io/v1alpha1).
type PolicyObjects interface {
	// Put creates an object, or replaces the one with the same name if a sink owns it.
	Put(ctx context.Context, report *PolicyObject) error
	// Delete deletes an object if a sink owns it. One that is not there is no error.
	Delete(ctx context.Context, sink Owner, namespace, name string) error
}

// Owner is the ReportSink that owns objects.
type Owner struct{ Name, UID string }

// PolicyObject is an object of the kind Report.
type PolicyObject struct {
	Owner           Owner
	Namespace, Name string
	// Content are the fields besides metadata, in JSON.
	Content []byte
}

// policyReports writes a Report for each workload into its namespace. Without a spec it only removes.
type policyReports struct {
	objects PolicyObjects
	owner   Owner
	spec    *PolicyReport
}

func (*policyReports) parts() int { return len(policyTemplates) }

func (*policyReports) longest() int { return 253 }

func (*policyReports) clean(text string) string { return text }

func (p *policyReports) most() int { return p.spec.MaxObjects }

func (p *policyReports) config() string { return digestOf(strconv.Itoa(p.spec.MaxResults)) }

func (*policyReports) findings() bool { return true }

func (*policyReports) removes() bool { return true }

// policyTemplates are the parts of the targets of policy reports.
var policyTemplates = []string{"{namespace}", "{kind}", "{workload}"}

// policyContent are the fields of a Report besides metadata.
type policyContent struct {
	Source        string              `json:"source"`
	Scope         policyScope         `json:"scope"`
	Configuration policyConfiguration `json:"configuration"`
	Summary       policySummary       `json:"summary"`
	Results       []policyResult      `json:"results,omitempty"`
}

type policyScope struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

type policyConfiguration struct {
	Limits struct {
		MaxResults int `json:"maxResults"`
	} `json:"limits"`
}

type policySummary struct {
	Pass  int `json:"pass"`
	Fail  int `json:"fail"`
	Warn  int `json:"warn"`
	Error int `json:"error"`
	Skip  int `json:"skip"`
}

type policyResult struct {
	Policy     string            `json:"policy"`
	Rule       string            `json:"rule"`
	Category   string            `json:"category"`
	Severity   string            `json:"severity"`
	Result     string            `json:"result"`
	Message    string            `json:"message"`
	Properties map[string]string `json:"properties"`

	risk float64
	rank model.Severity
}

// encode counts the open findings, and lists the worst ones.
func (p *policyReports) encode(ctx context.Context, t *target, r *reports) ([]document, error) {
	content := policyContent{Source: "scanner-operator", Scope: policyScope{Namespace: t.Parts[0], Kind: t.Parts[1], Name: t.Parts[2]}}
	content.Configuration.Limits.MaxResults = p.spec.MaxResults
	err := r.steadily(ctx, func(images []store.Image) error {
		content.Summary, content.Results = policySummary{}, nil
		for i := range images {
			image := &images[i]
			err := r.each(ctx, image.Key, true, func(f model.Finding) error {
				content.add(image, &f, p.spec.MaxResults)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	content.cut(p.spec.MaxResults)
	body, err := json.Marshal(content)
	return []document{{"report", "application/json", body}}, err
}

// add adds a finding. At most twice as many results as are wanted are kept.
func (c *policyContent) add(image *store.Image, f *model.Finding, most int) {
	v := &f.Vulnerability
	if f.Suppressed {
		c.Summary.Skip++
		return
	}
	result := "warn"
	if v.Severity >= model.SeverityHigh {
		result = "fail"
		c.Summary.Fail++
	} else {
		c.Summary.Warn++
	}
	one := policyResult{
		Policy: policyText(v.ID), Rule: policyText(f.Package.Name), Category: "Vulnerability", Severity: policySeverity(v.Severity), Result: result,
		Message:    policyText(fmt.Sprintf("%s %s in %s", f.Package.Name, f.Package.Version, image.Key.ImageID)),
		Properties: map[string]string{"package": policyText(f.Package.Name), "version": policyText(f.Package.Version), "image": policyText(image.Key.ImageID)},
		risk:       v.Risk, rank: v.Severity,
	}
	if f.Fix.State == model.FixStateFixed && len(f.Fix.Versions) > 0 {
		one.Properties["fixedVersion"] = policyText(f.Fix.Versions[0])
	}
	if len(v.KEV) > 0 {
		one.Properties["knownExploited"] = "true"
	}
	if c.Results = append(c.Results, one); len(c.Results) >= 2*most {
		c.cut(most)
	}
}

// policyText makes a text of others fit into a result. In JSON, characters can have six times as many bytes.
func policyText(text string) string {
	text = truncate.Ellipsis(printable(text), maxPolicyText)
	for {
		quoted, err := json.Marshal(text)
		size := len(quoted) - len(`""`)
		if err != nil || size <= maxPolicyText {
			return text
		}
		text = truncate.Ellipsis(text, len(text)*maxPolicyText/size)
	}
}

// cut keeps the worst results.
func (c *policyContent) cut(most int) {
	slices.SortFunc(c.Results, func(a, b policyResult) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(b.risk, a.risk), strings.Compare(a.Policy, b.Policy), strings.Compare(a.Message, b.Message))
	})
	c.Results = c.Results[:min(len(c.Results), most)]
}

// policySeverity is a severity in the words of policy reports.
func policySeverity(s model.Severity) string {
	switch s {
	case model.SeverityCritical, model.SeverityHigh, model.SeverityMedium, model.SeverityLow:
		return strings.ToLower(s.String())
	case model.SeverityNegligible, model.SeverityUnknown:
		return "info"
	default:
		return "info"
	}
}

// name is that of the object of a target: it names the sink, so that several sinks have objects of their own.
func (p *policyReports) name(t *target) string {
	return "scanner-" + digestOf(p.owner.UID, t.key())[:24]
}

func (p *policyReports) deliver(ctx context.Context, t *target, documents []document, _ bool) error {
	return p.objects.Put(ctx, &PolicyObject{Owner: p.owner, Namespace: t.Parts[0], Name: p.name(t), Content: documents[0].body})
}

func (p *policyReports) remove(ctx context.Context, t *target) error {
	return p.objects.Delete(ctx, p.owner, t.Parts[0], p.name(t))
}
