package notificationrules

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/notify"
)

// credentialIn finds the credentials that rules name.
var credentialIn = regexp.MustCompile(`credential: (\S+)`)

// The examples of the documentation and the samples are rules that the operator puts into effect. The tests of the package api hold them against the CRDs.
func TestExamples(t *testing.T) {
	var manifests []string
	for _, file := range []string{
		"../../../docs/how-to/notification-examples.md", "../../../config/samples/scanner_v1alpha1_notificationrule.yaml",
		"../../../config/samples/scanner_v1alpha1_clusternotificationrule.yaml",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".yaml") {
			manifests = append(manifests, string(text))
			continue
		}
		for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
			manifests = append(manifests, block[1])
		}
	}
	if len(manifests) != 12 {
		t.Errorf("%d examples, want ten and two samples", len(manifests))
	}
	for _, manifest := range manifests {
		var o object
		if strings.Contains(manifest, "kind: ClusterNotificationRule\n") {
			rule := &scannerv1alpha1.ClusterNotificationRule{}
			o = object{rule, &rule.Spec, &rule.Status}
		} else {
			rule := &scannerv1alpha1.NotificationRule{}
			o = object{rule, &rule.Spec, &rule.Status}
		}
		if err := yaml.UnmarshalStrict([]byte(manifest), o.Object); err != nil {
			t.Errorf("%v:\n%s", err, manifest)
			continue
		}
		credentials := map[string]bool{}
		config := "credentials: ["
		for _, match := range credentialIn.FindAllStringSubmatch(manifest, -1) {
			if !credentials[match[1]] {
				credentials[match[1]] = true
				config += fmt.Sprintf(`{name: %s, namespaces: ["*"]},`, match[1])
			}
		}
		permitted, err := notify.ParseConfig(config + "]")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := notify.NewRule(definition(o), permitted); err != nil {
			t.Errorf("%s: %v", o.GetName(), err)
		}
		for _, kind := range regexp.MustCompile(`"([A-Z][A-Za-z]+)"`).FindAllStringSubmatch(o.spec.When, -1) {
			known := false
			for _, one := range notify.Kinds() {
				known = known || string(one) == kind[1]
			}
			if !known {
				t.Errorf("%s: there is no kind of changes %s", o.GetName(), kind[1])
			}
		}
	}
}
