package api_test

import (
	"os"
	"regexp"
	"testing"
)

// manifestBlock matches the manifests of a page.
var manifestBlock = regexp.MustCompile("(?ms)^```yaml\n(apiVersion: .*?)^```")

// The manifests of these pages are accepted as they are.
func TestManifestsOfTheDocumentation(t *testing.T) {
	defs := definitions(t)
	for page, count := range map[string]int{"../docs/how-to/notification-examples.md": 10, "../docs/how-to/notifications.md": 1} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := manifestBlock.FindAllSubmatch(text, -1)
		if len(found) != count {
			t.Errorf("%s has %d manifests, want %d", page, len(found), count)
		}
		for _, block := range found {
			obj := parse(t, string(block[1]))
			d, known := defs[obj.GetKind()]
			if !known {
				t.Errorf("%s: there is no kind %s", page, obj.GetKind())
				continue
			}
			if errs := d.admit(t, obj, nil); len(errs) > 0 {
				t.Errorf("%s: %s: %v", page, obj.GetName(), errs)
			}
		}
	}
}
