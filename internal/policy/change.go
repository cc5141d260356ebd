package policy

import (
	"reflect"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// Change is what the expressions of notification rules see of a change.
type Change struct {
	// Kind is such as FindingOpened.
	Kind string `cel:"kind"`
	// Severity is Critical, High, Medium, Low, Negligible or Unknown, or "" for changes that have none. Of several findings it is the worst.
	Severity string `cel:"severity"`
	// KEV says that the finding, or one of those that a rollout opened or an image brought to a namespace, is known to be exploited.
	KEV bool `cel:"kev"`
}

// ChangedFinding is what they see of a finding. Changes that are about no single finding have one in which all is empty.
type ChangedFinding struct {
	// The fields are those of Finding. There is no risk: the history of changes has none.
	ID       string  `cel:"id"`
	Severity string  `cel:"severity"`
	KEV      bool    `cel:"kev"`
	EPSS     float64 `cel:"epss"`
	Fixable  bool    `cel:"fixable"`
	FixState string  `cel:"fixState"`
	Package  Package `cel:"package"`
}

// ChangedWorkload is what they see of a workload that runs an image.
type ChangedWorkload struct {
	// Namespace, Kind, Name and Owner are those of Workload.
	Namespace string `cel:"namespace"`
	Kind      string `cel:"kind"`
	Name      string `cel:"name"`
	Owner     string `cel:"owner"`
	// NamespaceLabels are the labels of the namespace when the change is read. Reading one that is not there is an error, which "in" avoids.
	NamespaceLabels map[string]string `cel:"namespaceLabels"`
}

// fieldNamespaceLabels is how expressions name NamespaceLabels.
const fieldNamespaceLabels = "namespaceLabels"

// variableChange is the name of the variable that policies do not have.
const variableChange = "change"

// changeEnvironment has the variables of notification rules.
var changeEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		ext.NativeTypes(reflect.TypeFor[Change](), reflect.TypeFor[ChangedFinding](), reflect.TypeFor[Package](), reflect.TypeFor[Image](),
			reflect.TypeFor[ChangedWorkload](), ext.ParseStructTags(true)),
		cel.Variable(variableChange, cel.ObjectType("policy.Change")),
		cel.Variable(variableFinding, cel.ObjectType("policy.ChangedFinding")),
		cel.Variable(variableImage, cel.ObjectType("policy.Image")),
		cel.Variable(variableWorkload, cel.ObjectType("policy.ChangedWorkload")),
		cel.ParserRecursionLimit(maxNesting), cel.ParserExpressionSizeLimit(MaxExpression),
		cel.CrossTypeNumericComparisons(true),
	)
})

// ChangeSelector selects changes, and the places that they concern. CompileChange makes one. It is safe for concurrent use.
type ChangeSelector struct {
	change, place cel.Program
	labels        bool
}

// CompileChange reads an expression; "" selects everything. Each of its conjuncts is about change and finding, or about image and workload, so the two
// are evaluated separately: for 5,000 changes in 300 workloads that is 5,300 evaluations, and not 1.5 million. An error is an *Error.
func CompileChange(expression string) (*ChangeSelector, error) {
	change, place, fields, err := split(expression, changeEnvironment, []string{variableChange, variableFinding}, []string{variableImage, variableWorkload},
		"a part of the expression is about the change and about where it is: "+
			"join what is about change or finding and what is about image or workload with &&, or create a rule for each case")
	if err != nil {
		return nil, err
	}
	return &ChangeSelector{change, place, fields[fieldNamespaceLabels]}, nil
}

// NamespaceLabels reports whether the expression reads labels of namespaces.
func (s *ChangeSelector) NamespaceLabels() bool { return s.labels }

// Change reports whether a change is selected, if it is in a place that is. An error says that the expression cannot be evaluated for it.
func (s *ChangeSelector) Change(c *Change, f *ChangedFinding) (bool, error) {
	return evaluate(s.change, map[string]any{variableChange: c, variableFinding: f})
}

// Place reports whether a workload that runs an image is selected. An error says that the expression cannot be evaluated for it.
func (s *ChangeSelector) Place(i *Image, w *ChangedWorkload) (bool, error) {
	return evaluate(s.place, map[string]any{variableImage: i, variableWorkload: w})
}
