package setup

import (
	"strings"
	"testing"
)

func TestWhichControllersRun(t *testing.T) {
	all := []string{"scanner", "exceptions", "policies", "podset", "mycustomresource", "bellerophonsimple", "rollout", "vexsources", "notifications", "reportsinks"}
	for _, test := range []struct {
		entries string
		on, off []string
	}{
		{"*", all, nil},
		{"*,-podset", []string{"scanner", "mycustomresource", "bellerophonsimple", "rollout"}, []string{"podset"}},
		{"-podset,*", []string{"scanner"}, []string{"podset"}},
		{"podset", []string{"podset"}, []string{"scanner", "rollout"}},
		{"podset,scanner", []string{"podset", "scanner"}, []string{"rollout"}},
		{"podset,-podset,*", []string{"podset", "scanner"}, nil},
		{"-podset", nil, all},
	} {
		opts := Options{Controllers: strings.Split(test.entries, ",")}
		for _, name := range test.on {
			if !opts.enabled(name) {
				t.Errorf("%q: %s is off", test.entries, name)
			}
		}
		for _, name := range test.off {
			if opts.enabled(name) {
				t.Errorf("%q: %s is on", test.entries, name)
			}
		}
	}
}

func TestUnknownControllersAreRefused(t *testing.T) {
	opts := Options{}
	if err := opts.validateControllers(); err != nil {
		t.Errorf("no list: %v", err)
	}
	for _, name := range ControllerNames() {
		if !opts.enabled(name) {
			t.Errorf("%s is off without a list", name)
		}
		if err := (&Options{Controllers: []string{"*", "-" + name, name}}).validateControllers(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, entry := range []string{"scanners", "-*", "", "--scanner", "Scanner"} {
		opts := Options{Controllers: []string{"*", entry}}
		if err := opts.validateControllers(); err == nil || !strings.Contains(err.Error(), strings.Join(ControllerNames(), ", ")) {
			t.Errorf("%q: got %v, want an error that lists the names", entry, err)
		}
	}
}
