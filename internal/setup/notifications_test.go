package setup_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/notify/notifytest"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// importDatabase installs a database beside an operator, or before one starts.
func importDatabase(t *testing.T, dataDir string, build vulndb.Installed) {
	t.Helper()
	library, err := vulndb.New(vulndb.Config{Dir: filepath.Join(dataDir, "db"), UpdateURL: vulndb.UpdateURLNone})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := library.Import(t.Context(), build.SQLiteDir()); err != nil {
		t.Fatal(err)
	}
}

// TestFromDatabaseUpdateToReceivers follows a database update through a whole operator to one message in a real Alertmanager and one in a real mailbox,
// within 30 seconds. A rule can select by the labels of the namespace.
func TestFromDatabaseUpdateToReceivers(t *testing.T) {
	c, g := needCluster(t), gomega.NewWithT(t)
	ns, data, credentials := namespace(t, c), t.TempDir(), t.TempDir()
	amd64Node(t, c)
	var space corev1.Namespace
	if err := c.Get(t.Context(), types.NamespacedName{Name: ns}, &space); err != nil {
		t.Fatal(err)
	}
	space.Labels["stage"] = "production"
	if err := c.Update(t.Context(), &space); err != nil {
		t.Fatal(err)
	}
	box, alertmanager := &notifytest.Mailbox{}, notifytest.Alertmanager(t)
	server, ca := notifytest.Serve(t, box, false)
	if err := os.Mkdir(filepath.Join(credentials, "mail"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"host": server, "from": "scanner@example.com", "username": "scanner", "password": "s3cret", "ca.crt": ca} {
		if err := os.WriteFile(filepath.Join(credentials, "mail", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := dbtest.Mutate(t, dbtest.Sample(t), 1, dbtest.Change{Kind: dbtest.Remove, Fraction: 1, Only: []string{"golang.org/x/net"}})
	importDatabase(t, data, before)
	api, _ := startOperator(t, ns, data, func(o *setup.Options) {
		o.VulnerabilityDatabase.Sample = false
		o.Notifications.CredentialsDir, o.SignIn.ExternalURL = credentials, "https://scanner.example"
		o.Notifications.Config = fmt.Sprintf(`{credentials: [{name: mail, namespaces: [%s]}], allowedNetworks: ["127.0.0.0/8"]}`, ns)
	})
	scanner := sampleScanner(t, ns)
	create(t, c, scanner)
	scan := func(name, digit string) {
		image := imageID(name, digit)
		g.Eventually(func() map[string]*batchv1.Job { return jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(image))
		job := jobs(t.Context(), c, ns)[image]
		if status := deliver(t, api, image, podOfJob(t, c, job, scanjob.Audience), []byte(smallSBOM)); status != http.StatusNoContent {
			t.Fatalf("the SBOM was answered with %d", status)
		}
		finish(t, c, job, batchv1.JobComplete)
	}
	// Two images with the same package.
	runningPod(t, c, ns, "one", imageID("one", "1"))
	runningPod(t, c, ns, "two", imageID("two", "2"))
	scan("one", "1")
	scan("two", "2")
	g.Eventually(func() string { return ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
	sinks := []scannerv1alpha1.NotificationSink{
		{Name: "alerts", Alertmanager: &scannerv1alpha1.NotificationEndpoint{URL: alertmanager}},
		{Name: "mail", Email: &scannerv1alpha1.NotificationEmail{Credential: "mail", To: []string{"team@example.com"}}},
	}
	rule := &scannerv1alpha1.NotificationRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "opened"},
		Spec: scannerv1alpha1.NotificationRuleSpec{
			When: `change.kind == "FindingOpened" && "stage" in workload.namespaceLabels && workload.namespaceLabels["stage"] == "production"`, Sinks: sinks,
		},
	}
	create(t, c, rule)
	create(t, c, &scannerv1alpha1.NotificationRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "elsewhere"},
		Spec:       scannerv1alpha1.NotificationRuleSpec{When: `"stage" in workload.namespaceLabels && workload.namespaceLabels["stage"] == "test"`, Sinks: sinks},
	})
	valid := func() string {
		if err := c.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: rule.Name}, rule); err != nil {
			return err.Error()
		}
		for _, condition := range rule.Status.Conditions {
			if condition.Type == scannerv1alpha1.ConditionValid {
				return string(condition.Status) + " " + condition.Message
			}
		}
		return ""
	}
	g.Eventually(valid, patience, tick).Should(gomega.HavePrefix("True "))

	began := time.Now()
	importDatabase(t, data, dbtest.Mutate(t, dbtest.Mutate(t, dbtest.Sample(t), 2), 3))
	g.Eventually(func() int { return len(notifytest.Alerts(t, alertmanager)) }, patience, tick).Should(gomega.Equal(1))
	g.Eventually(func() int { return len(box.All()) }, patience, tick).Should(gomega.Equal(1))
	t.Logf("the messages arrived %s after the database was imported", time.Since(began).Round(100*time.Millisecond))
	alert, letter := notifytest.Alerts(t, alertmanager)[0], box.All()[0]
	// Both lead to what is open in the namespace.
	link := "https://scanner.example/vulnerabilities?namespace=" + ns
	if !strings.Contains(alert.GeneratorURL, link) || !strings.Contains(strings.ReplaceAll(letter.Text, "=\r\n", ""), strings.ReplaceAll(link, "=", "=3D")) {
		t.Errorf("the alert leads to %q, not to %s; the mail is %s", alert.GeneratorURL, link, letter.Text)
	}
	if alert.Labels["group"] != ns || !strings.Contains(alert.Annotations["summary"], "new finding") || !strings.Contains(alert.Annotations["description"], "golang.org/x/net") {
		t.Errorf("the alert is %+v", alert)
	}
	if !strings.Contains(letter.Text, "Concerns 2 workloads") || !strings.Contains(letter.Text, "golang.org/x/net") || !letter.Secure {
		t.Errorf("the mail is %s", letter.Text)
	}
	// Both sinks report the delivery, and nothing more was sent.
	g.Eventually(func() string {
		_ = valid()
		var said []string
		for _, sink := range rule.Status.Sinks {
			said = append(said, fmt.Sprintf("%s %d %d", sink.Name, sink.Delivered, sink.Pending))
			if at := sink.LastDeliveryTime; at == nil || at.Time.Before(began.Truncate(time.Second)) || at.After(time.Now()) {
				said = append(said, fmt.Sprintf("at %v", at))
			}
		}
		return strings.Join(said, ", ")
	}, patience, tick).Should(gomega.Equal("alerts 1 0, mail 1 0"))
	if alerts, letters := len(notifytest.Alerts(t, alertmanager)), len(box.All()); alerts != 1 || letters != 1 {
		t.Errorf("%d alerts and %d mails", alerts, letters)
	}
	testRule(t, c, api, rule, box)

	// A new workload brings an image with the findings of today.
	letters := len(box.All())
	arrivals := rule.DeepCopy()
	arrivals.ObjectMeta = metav1.ObjectMeta{Namespace: ns, Name: "arrivals"}
	arrivals.Spec.When, arrivals.Spec.Sinks = `change.kind == "ImageIntroduced"`, sinks[1:]
	create(t, c, arrivals)
	rule = arrivals
	g.Eventually(valid, patience, tick).Should(gomega.HavePrefix("True "))
	runningPod(t, c, ns, "three", imageID("three", "3"))
	scan("three", "3")
	g.Eventually(func() int { return len(box.All()) }, patience, tick).Should(gomega.Equal(letters + 1))
	if text := strings.ReplaceAll(box.All()[letters].Text, "=\r\n", ""); !strings.Contains(text, imageID("three", "3")+" is new in "+ns) {
		t.Errorf("the mail about a new workload is %s", text)
	}
}

// testRule requests a test message of a rule with a mailbox, as a user who may update rules of its namespace, and as one who may not.
func testRule(t *testing.T, c client.Client, api string, rule *scannerv1alpha1.NotificationRule, box *notifytest.Mailbox) {
	t.Helper()
	group := []string{scannerv1alpha1.GroupVersion.Group}
	for account, rules := range map[string][]rbacv1.PolicyRule{
		"reader": {{APIGroups: group, Resources: []string{"scanresults"}, Verbs: []string{"get", "list"}}},
		"author": {
			{APIGroups: group, Resources: []string{"scanresults"}, Verbs: []string{"get", "list"}},
			{APIGroups: group, Resources: []string{"notificationrules"}, Verbs: []string{"update"}},
		},
	} {
		meta := metav1.ObjectMeta{Namespace: rule.Namespace, Name: account}
		create(t, c, &corev1.ServiceAccount{ObjectMeta: meta})
		create(t, c, &rbacv1.Role{ObjectMeta: meta, Rules: rules})
		create(t, c, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: rule.Namespace, Name: account}},
		})
	}
	before := len(box.All())
	test := func(account string) (int, string) {
		body := fmt.Sprintf(`{"namespace": %q, "name": %q}`, rule.Namespace, rule.Name)
		return setuptest.Ask(t, http.MethodPost, api+"/api/v1/notification-rules/test", body, tokenOf(t, c, rule.Namespace, account), "Content-Type", "application/json")
	}
	if status, answer := test("reader"); status != http.StatusForbidden || len(box.All()) != before {
		t.Errorf("who may only read tests a rule: %d %s", status, answer)
	}
	status, answer := test("author")
	if status != http.StatusOK || strings.Contains(answer, "error") {
		t.Errorf("the test has the status %d: %s", status, answer)
	}
	letters := box.All()
	if len(letters) != before+1 || !strings.Contains(letters[len(letters)-1].Text, "to test whether notifications arrive") {
		t.Errorf("after a test there are %d mails, want %d: %v", len(letters), before+1, letters[before:])
	}
}
