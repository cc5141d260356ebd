package setup

import (
	"net/url"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/notify"
)

// linkTo returns where the UI shows more about a message, nil without the URL of the UI. The page shows only the namespace that the message concerns, if it
// is one.
func linkTo(external string) func(*notify.Message) string {
	base, err := url.Parse(external)
	if external == "" || err != nil {
		return nil
	}
	return func(m *notify.Message) string {
		page, query := pageOf(m)
		if namespace := onlyNamespace(m); namespace != "" && query != nil {
			query.Set("namespace", namespace)
		}
		link := base.JoinPath(page)
		link.RawQuery = query.Encode()
		return link.String()
	}
}

// pageOf returns the page about the most urgent changes of a message, and its filters; they are nil if the page cannot show one namespace only.
func pageOf(m *notify.Message) (string, url.Values) {
	has := func(kinds ...notify.Kind) bool {
		for _, kind := range kinds {
			if m.Counts[kind] > 0 {
				return true
			}
		}
		return false
	}
	switch {
	case m.Report != nil || m.Test:
		return "", nil
	case has(notify.KEVAdded):
		return "vulnerabilities", url.Values{"kev": {"true"}}
	case has(notify.FindingOpened, notify.EPSSCrossed, notify.FindingChanged, notify.FindingClosed):
		if onlyNamespace(m) == "" || !has(notify.FindingOpened, notify.EPSSCrossed, notify.FindingChanged) {
			return "database", nil
		}
		return "vulnerabilities", url.Values{}
	case has(notify.FindingOverdue):
		return "vulnerabilities", url.Values{"overdue": {"true"}}
	case has(notify.RolloutEvaluated):
		return "rollouts", url.Values{}
	case has(notify.ImageIntroduced):
		return "images", url.Values{}
	case has(notify.ExceptionExpired, notify.ExceptionExpiring, notify.ExceptionRemoved):
		return "decisions", nil
	case has(notify.ScanFailed, notify.CoverageLost):
		return "coverage", url.Values{}
	default:
		return "database", nil
	}
}

// onlyNamespace returns the namespace of all workloads that a message concerns, "" if there are several or not all are known.
func onlyNamespace(m *notify.Message) string {
	only := ""
	for i, workload := range m.Workloads {
		namespace, _, _ := strings.Cut(workload, "/")
		if i > 0 && namespace != only {
			return ""
		}
		only = namespace
	}
	if m.More {
		return ""
	}
	return only
}
