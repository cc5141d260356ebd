package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/assess"
)

// The names of the controllers, as --controllers takes them.
const (
	ControllerScanner = "scanner"
)

// allControllers is what --controllers takes when nothing else is said.
const allControllers = "*"

// ControllerNames returns the names of all controllers, sorted.
func ControllerNames() []string {
	return []string{ControllerScanner}
}

// enabled says whether a controller is to run. As in kube-controller-manager, the first entry of the list that names the controller decides:
// NAME switches it on, -NAME off; * stands for all that are not named.
func (o *Options) enabled(controller string) bool {
	for _, entry := range o.Controllers {
		switch entry {
		case controller:
			return true
		case "-" + controller:
			return false
		}
	}
	return slices.Contains(o.Controllers, allControllers)
}

// addControllers adds those that are to run.
func (o *Operator) addControllers(assessor *assess.Assessor, wake *waker) error {
	for name, add := range map[string]func() error{
		ControllerScanner: func() error { return o.addScanners(assessor, wake) },
	} {
		if !o.opts.enabled(name) {
			o.opts.Log.Info("A controller is switched off", "controller", name)
			continue
		}
		if err := add(); err != nil {
			return err
		}
	}
	return nil
}

func (o *Options) validateControllers() error {
	if len(o.Controllers) == 0 {
		o.Controllers = []string{allControllers}
	}
	for _, entry := range o.Controllers {
		if entry != allControllers && !slices.Contains(ControllerNames(), strings.TrimPrefix(entry, "-")) {
			return fmt.Errorf("--controllers: %q is no controller; use *, NAME or -NAME with the names %s", entry, strings.Join(ControllerNames(), ", "))
		}
	}
	return nil
}
