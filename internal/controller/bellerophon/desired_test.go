package bellerophon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
)

// TestManifests compares what sheroes are made of with testdata, word for word. The hash of what is applied is left out.
func TestManifests(t *testing.T) {
	tests := map[string]func(*stablev444beta989.BellerophonSimple){
		"sample.yaml": func(*stablev444beta989.BellerophonSimple) {},
		"storage.yaml": func(s *stablev444beta989.BellerophonSimple) {
			s.Spec.Replicas, s.Spec.WingedHorseName = new(int32(0)), ""
			s.Spec.Storage = &stablev444beta989.BellerophonSimpleStorage{
				Size: resource.MustParse("1Gi"), StorageClassName: new("fast"), MountPath: "/var/lib/app",
				OnDelete: stablev444beta989.ClaimDelete, OnScaleDown: stablev444beta989.ClaimRetain,
			}
		},
	}
	for file, mutate := range tests {
		t.Run(file, func(t *testing.T) {
			shero := sample(t)
			shero.Namespace, shero.UID = "default", "uid"
			mutate(shero)
			objects, err := desired(shero)
			if err != nil {
				t.Fatal(err)
			}
			var documents []string
			for _, object := range objects {
				object.SetAnnotations(nil)
				document, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				documents = append(documents, string(document))
			}
			want, err := os.ReadFile(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), strings.Join(documents, "---\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWingedHorses(t *testing.T) {
	tests := map[string]struct{ name, env, label string }{
		"none":             {"", "", ""},
		"a plain name":     {"pegasusio", "pegasusio", "pegasusio"},
		"no label":         {"pegasus & sons", "pegasus & sons", ""},
		"too long a label": {strings.Repeat("p", 64), strings.Repeat("p", 64), ""},
		// The kubelet makes one $ of two.
		"a reference": {"$(HOME)/$$", "$$(HOME)/$$$$", ""},
	}
	for label, test := range tests {
		t.Run(label, func(t *testing.T) {
			shero := sample(t)
			shero.Spec.WingedHorseName = test.name
			env := ""
			for _, variable := range pod(shero).Containers[0].Env {
				env = *variable.Value
			}
			if env != test.env {
				t.Errorf("environment %q, want %q", env, test.env)
			}
			if got := labelsOf(shero)[stablev444beta989.LabelWingedHorseName]; got != test.label {
				t.Errorf("label %q, want %q", got, test.label)
			}
			if _, selected := selector(shero)[stablev444beta989.LabelWingedHorseName]; selected {
				t.Error("pods are selected by a label that may change")
			}
		})
	}
}

// TestTheHashTellsWhatIsWanted has the same hash for the same wishes, and another one for others.
func TestTheHashTellsWhatIsWanted(t *testing.T) {
	hash := func(mutate func(*stablev444beta989.BellerophonSimple)) string {
		shero := sample(t)
		mutate(shero)
		return desiredOf(t, shero)["StatefulSet"].GetAnnotations()[annotationApplied]
	}
	same := hash(func(s *stablev444beta989.BellerophonSimple) { s.Generation, s.Status.Replicas = 7, 3 })
	if got := hash(func(*stablev444beta989.BellerophonSimple) {}); got != same || got == "" {
		t.Errorf("hashes %q and %q of the same wish", got, same)
	}
	if got := hash(func(s *stablev444beta989.BellerophonSimple) { s.Spec.WingedHorseName = "" }); got == same {
		t.Error("the same hash without a winged horse: it would stay for ever")
	}
}
