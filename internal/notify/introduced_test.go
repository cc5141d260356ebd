package notify

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// An image that a new workload brings to a namespace is reported to the rules that see the namespace, with what counts there when the message is sent.
func TestImagesNewInNamespaces(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	key := image("a")
	f.run(t, key, []string{"p"}, workload("known", "web", ""))
	exploited := finding("CVE-2", model.SeverityHigh)
	exploited.Vulnerability.KEV = []model.KnownExploited{{}}
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityCritical), exploited}})
	if taken, err := f.ReportIntroductions(t.Context(), time.Time{}, store.MaxIntroduced); err != nil || taken != 1 {
		t.Fatalf("%d images were new: %v", taken, err)
	}
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	const introduced = `change.kind == "ImageIntroduced"`
	f.start(t, e,
		rule(t, Definition{Name: "all", When: introduced, Window: time.Hour}), rule(t, Definition{Name: "exploited", When: introduced + " && change.kev", Window: time.Hour}),
		rule(t, Definition{Namespace: "one", Name: "own", When: introduced, Window: time.Hour}), rule(t, Definition{Namespace: "known", Name: "other", When: introduced, Window: time.Hour}),
		rule(t, Definition{Name: "critical", When: introduced, MinSeverity: "Critical", Window: time.Hour}),
		rule(t, Definition{Name: "another", When: introduced + ` && workload.name == "api"`, Window: time.Hour}))
	must(t, f.RecordUses(t.Context(), "scope", []store.Use{{Image: key, Workload: workload("one", "web", ""), Container: "c"}}))
	if taken, err := f.ReportIntroductions(t.Context(), time.Time{}, store.MaxIntroduced); err != nil || taken != 1 {
		t.Fatalf("%d images were new: %v", taken, err)
	}
	pending := func() (names []string) {
		for name, state := range e.States() {
			if state.Queues["sink"].Pending > 0 {
				names = append(names, name)
			}
		}
		return names
	}
	g.Eventually(pending, patience, tick).Should(gomega.ConsistOf("uid-all", "uid-exploited", "uid-oneown", "uid-critical"))
	// What is suppressed until the message is sent is not in it: no Critical finding is left.
	f.suppress(t, map[string][]string{"one": {"CVE-1"}})
	f.clock.move(time.Hour)
	g.Eventually(pending, patience, tick).Should(gomega.BeEmpty())
	got := map[string]Message{}
	for _, one := range r.all() {
		got[one.message.Rule] = one.message
	}
	if len(got) != 3 {
		t.Errorf("sent are %+v", got)
	}
	for _, name := range []string{"all", "exploited", "one/own"} {
		m := got[name]
		text := key.ImageID + " is new in one: 1 High, 1 of them known to be exploited (KEV)"
		if len(m.Others) != 1 || m.Others[0].Text != text || m.Others[0].Introduced != nil || m.Severities[ImageIntroduced] != (model.SeverityCounts{High: 1}) ||
			len(m.Workloads) != 1 || m.Workloads[0] != "one/Deployment/web" {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// A message keeps the worst new images, names the worst first, and has room for other changes.
func TestWorstNewImages(t *testing.T) {
	var m Message
	for n := range 3 * maxIntroduced {
		image := &IntroducedImage{Namespace: "n", ImageID: fmt.Sprint("image ", n), Findings: model.SeverityCounts{High: n % 70, Low: 1}}
		m.addOther(Other{Kind: ImageIntroduced, Text: image.text(), Introduced: image}, image.Findings, noon)
	}
	m.addOther(Other{Kind: DatabaseStale, Text: "stale"}, model.SeverityCounts{}, noon)
	if m.Counts[ImageIntroduced] != 3*maxIntroduced || len(m.Others) != maxIntroduced+1 || m.Others[maxIntroduced].Kind != DatabaseStale {
		t.Fatalf("%v, %d others", m.Counts, len(m.Others))
	}
	for _, o := range m.Others[:maxIntroduced] {
		if o.Introduced.Findings.High < 40 {
			t.Errorf("%s is kept", o.Text)
		}
	}
	if sent := m.forReceivers().Others; len(sent) != maxWorst || sent[0].Text != "image 69 is new in n: 69 High, 1 Low" || sent[1].Text != "image 139 is new in n: 69 High, 1 Low" {
		t.Errorf("sent are %v", sent)
	}
}
