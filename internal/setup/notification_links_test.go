package setup

import (
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/notify"
)

func TestLinksOfMessages(t *testing.T) {
	t.Parallel()
	if linkTo("") != nil {
		t.Error("there is a link without the URL of the UI")
	}
	shop, several := []string{"shop/Deployment/cart", "shop/Deployment/web"}, []string{"bank/Deployment/web", "shop/Deployment/web"}
	for _, c := range []struct {
		kind      notify.Kind
		workloads []string
		more      bool
		want      string
	}{
		{notify.FindingOpened, shop, false, "vulnerabilities?namespace=shop"},
		{notify.FindingOpened, several, false, "database"},
		{notify.FindingOpened, shop, true, "database"},
		{notify.FindingClosed, shop, false, "database"},
		{notify.KEVAdded, shop, false, "vulnerabilities?kev=true&namespace=shop"},
		{notify.FindingOverdue, several, false, "vulnerabilities?overdue=true"},
		{notify.RolloutEvaluated, shop, false, "rollouts?namespace=shop"},
		{notify.ImageIntroduced, shop, false, "images?namespace=shop"},
		{notify.ScanFailed, shop, false, "coverage?namespace=shop"},
		{notify.ExceptionExpiring, shop, false, "decisions"},
		{notify.DatabaseStale, nil, false, "database"},
	} {
		m := &notify.Message{Counts: map[notify.Kind]int{c.kind: 1}, Workloads: c.workloads, More: c.more}
		if got, want := linkTo("https://scanner.example/base/")(m), "https://scanner.example/base/"+c.want; got != want {
			t.Errorf("%s of %v: %s, want %s", c.kind, c.workloads, got, want)
		}
	}
	if got := linkTo("https://scanner.example")(&notify.Message{Test: true}); got != "https://scanner.example" && got != "https://scanner.example/" {
		t.Errorf("a test leads to %s", got)
	}
}
