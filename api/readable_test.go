package api_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestWhatIsAdmittedCanBeRead stores numbers that are hard to read. An informer reads all objects of a kind: one that cannot be read, or takes
// minutes, would hide those of all namespaces.
func TestWhatIsAdmittedCanBeRead(t *testing.T) {
	defs, known := definitions(t), scheme(t)
	fields := map[string]string{
		"BellerophonSimple": `{image: a, storage: {size: %s}}`,
		"Scanner":           `{job: {resources: {limits: {memory: %[1]s}, requests: {memory: %[1]s}}}}`,
	}
	for amount, admitted := range map[string]bool{
		`"1Gi"`: true, `"0.5Gi"`: true, `"512M"`: true, `"100m"`: true, `"1e9"`: true, `"12E6"`: true, `1073741824`: true, `"9223372036854775807"`: true,
		`"1e-100000000"`: false, `"1e1000"`: false, `"1e1.5"`: false, `"1e.5"`: false, `"1e99999999999999999999"`: false, `"` + fmt.Sprintf("%0300d", 1) + `"`: false,
	} {
		for kind, spec := range fields {
			obj := object(t, defs, kind, fmt.Sprintf(spec, amount))
			if errs := defs[kind].admit(t, obj, nil); (len(errs) == 0) != admitted {
				t.Errorf("%s with %s: admitted is not %t: %v", kind, amount, admitted, errs)
				continue
			}
			if !admitted {
				continue
			}
			text, err := obj.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			typed, err := known.New(obj.GroupVersionKind())
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, typed); err != nil {
				t.Errorf("%s with %s: %v", kind, amount, err)
			}
		}
	}
}
