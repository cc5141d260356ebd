package notify

import (
	"cmp"
	"context"
	"fmt"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/policy"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// IntroducedImage is an image that is new in a namespace, with its findings there.
type IntroducedImage struct {
	Namespace string               `json:"namespace"`
	ImageID   string               `json:"imageId"`
	Platform  string               `json:"platform"`
	Findings  model.SeverityCounts `json:"findings"`
	// KEV counts those that are known to be exploited.
	KEV int `json:"kev"`
}

func (i *IntroducedImage) text() string {
	text := fmt.Sprintf("%s is new in %s: %s", i.ImageID, i.Namespace, severityText(i.Findings))
	if i.KEV > 0 {
		text += fmt.Sprintf(", %d of them known to be exploited (KEV)", i.KEV)
	}
	return text
}

// compare orders images by the findings that are known to be exploited, then by the worst findings.
func (i *IntroducedImage) compare(o *IntroducedImage) int {
	a, b := &i.Findings, &o.Findings
	return cmp.Or(cmp.Compare(i.KEV, o.KEV), cmp.Compare(a.Critical, b.Critical), cmp.Compare(a.High, b.High), cmp.Compare(a.Medium, b.Medium), cmp.Compare(a.Low, b.Low))
}

// key names the image and the namespace; the zero value if the platform is not valid.
func (i *IntroducedImage) key() store.Introduction {
	platform, err := model.ParsePlatform(i.Platform)
	if err != nil {
		return store.Introduction{}
	}
	return store.Introduction{Namespace: i.Namespace, Image: model.ImageKey{ImageID: i.ImageID, Platform: platform}}
}

// addIntroduced adds an image that began to run in a namespace.
func (e *Engine) addIntroduced(ctx context.Context, batches []*batch, event *store.Event) error {
	var data store.IntroducedEvent
	if err := unmarshal(event, &data); err != nil {
		return err
	}
	image := IntroducedImage{Namespace: data.Namespace, ImageID: event.ImageID, Platform: event.Platform, Findings: data.Findings, KEV: data.KEV}
	var selecting []*batch
	for _, b := range batches {
		if b.rule.sees(data.Namespace) && b.selects(&policy.Change{Kind: string(ImageIntroduced), KEV: image.KEV > 0}, new(worstOf(image.Findings)), &policy.ChangedFinding{}) {
			selecting = append(selecting, b)
		}
	}
	if len(selecting) == 0 {
		return nil
	}
	here, err := e.runningImage(ctx, store.OnlyNamespaces(data.Namespace), event.ImageID, event.Platform)
	if err != nil || here == nil {
		return err
	}
	here.Partial = true // Other namespaces run it, too.
	for _, b := range selecting {
		places := b.placements(here)
		for i := range places {
			places[i].group.message.addOther(Other{Kind: ImageIntroduced, Text: image.text(), Introduced: new(image)}, image.Findings, event.At)
			places[i].list()
		}
	}
	return nil
}

// introductions are the images that are new in a namespace.
func (m *Message) introductions() []store.Introduction {
	var all []store.Introduction
	for i := range m.Others {
		if image := m.Others[i].Introduced; image != nil {
			all = append(all, image.key())
		}
	}
	return all
}

// countIntroduced has images that are new in a namespace count the findings that they have now, without those that decisions suppress, and leaves out images
// that the rule does not select any more. present has what they have; images that are not in it stay. It reports whether anything changed.
func (m *Message) countIntroduced(rule *Rule, present map[store.Introduction]store.Counts) (changed bool) {
	return m.reviseOthers(ImageIntroduced, func(_ int, o Other) *revised {
		if o.Introduced == nil {
			return nil
		}
		now, known := present[o.Introduced.key()]
		before := o.Introduced.Findings
		if !known || now.SeverityCounts == before && now.KEV == o.Introduced.KEV {
			return nil
		}
		o.Introduced = new(*o.Introduced)
		o.Introduced.Findings, o.Introduced.KEV = now.SeverityCounts, now.KEV
		o.Text = o.Introduced.text()
		return &revised{before, now.SeverityCounts, o, now.Total() > 0 && rule.keeps(ImageIntroduced, now.SeverityCounts, now.KEV > 0)}
	})
}
