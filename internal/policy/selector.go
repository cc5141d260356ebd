package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/ext"
)

// Bounds of expressions.
const (
	// MaxExpression is the maximum length of an expression in bytes.
	MaxExpression = 4096
	// MaxCost is the cost that one evaluation of an expression may have, in the units of CEL: about one for each operation.
	MaxCost = 1000
	// maxNesting bounds how deep an expression is nested.
	maxNesting = 50
)

// The names of the variables.
const (
	variableFinding  = "finding"
	variableImage    = "image"
	variableWorkload = "workload"
)

// Error says what is wrong with an expression, and where.
type Error struct {
	// Line counts from 1, Column from 1 in characters; both are 0 when the problem is not at a place.
	Line, Column int
	Message      string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// environment has the variables. It is made once: that takes milliseconds.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		ext.NativeTypes(reflect.TypeFor[Finding](), reflect.TypeFor[Package](), reflect.TypeFor[Image](), reflect.TypeFor[Workload](), ext.ParseStructTags(true)),
		cel.Variable(variableFinding, cel.ObjectType("policy.Finding")),
		cel.Variable(variableImage, cel.ObjectType("policy.Image")),
		cel.Variable(variableWorkload, cel.ObjectType("policy.Workload")),
		cel.ParserRecursionLimit(maxNesting), cel.ParserExpressionSizeLimit(MaxExpression),
		cel.CrossTypeNumericComparisons(true),
	)
})

// Selector selects findings, and the places where they are. Compile makes one. It is safe for concurrent use.
type Selector struct {
	finding, place cel.Program
	scores         bool
}

// Compile reads an expression; "" selects everything. Its conjuncts, the parts that && joins, are about the finding or about the place: one that
// names finding names neither image nor workload. So what a policy says of findings and what it says of places is evaluated separately. An error
// is an *Error.
func Compile(expression string) (*Selector, error) {
	first, second, fields, err := split(expression, environment, []string{variableFinding}, []string{variableImage, variableWorkload},
		"a part of the expression is about the finding and about where it is: "+
			"join what is about the finding and what is about image or workload with &&, or create a policy for each case")
	if err != nil {
		return nil, err
	}
	return &Selector{finding: first, place: second, scores: fields["epss"] || fields["risk"]}, nil
}

// split compiles the conjuncts of an expression: those that name variables of the second list, and the others. Without any, the program is nil. mixed is
// the error for a conjunct that names variables of both lists. fields has the names of fields that it may read. An error is an *Error.
func split(
	expression string, environment func() (*cel.Env, error), ofFirst, ofSecond []string, mixed string,
) (first, second cel.Program, fields map[string]bool, err error) {
	if len(expression) > MaxExpression {
		return nil, nil, nil, &Error{Message: fmt.Sprintf("the expression has %d bytes, the maximum is %d", len(expression), MaxExpression)}
	}
	if expression == "" {
		return nil, nil, nil, nil
	}
	env, err := environment()
	if err != nil {
		return nil, nil, nil, &Error{Message: err.Error()}
	}
	checked, issues := env.Compile(expression)
	if found := issues.Errors(); len(found) > 0 {
		one := found[0]
		return nil, nil, nil, &Error{Line: one.Location.Line(), Column: one.Location.Column() + 1, Message: one.Message}
	}
	if !checked.OutputType().IsExactType(cel.BoolType) {
		return nil, nil, nil, &Error{Message: fmt.Sprintf("the expression is of type %s, it has to be true or false", checked.OutputType())}
	}
	native := checked.NativeRep()
	var firsts, seconds []ast.Expr
	for _, part := range conjuncts(native.Expr()) {
		names := namesIn(part)
		named := func(name string) bool { return names[name] }
		aboutFirst, aboutSecond := slices.ContainsFunc(ofFirst, named), slices.ContainsFunc(ofSecond, named)
		switch {
		case aboutFirst && aboutSecond:
			at := native.SourceInfo().GetStartLocation(part.ID())
			return nil, nil, nil, &Error{Line: at.Line(), Column: at.Column() + 1, Message: mixed}
		case aboutSecond:
			seconds = append(seconds, part)
		default:
			firsts = append(firsts, part)
		}
	}
	fields = fieldsIn(native.Expr())
	if first, err = program(env, native, firsts); err != nil {
		return nil, nil, nil, &Error{Message: err.Error()}
	}
	if second, err = program(env, native, seconds); err != nil {
		return nil, nil, nil, &Error{Message: err.Error()}
	}
	return first, second, fields, nil
}

// conjuncts splits an expression at its outermost &&.
func conjuncts(e ast.Expr) []ast.Expr {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.LogicalAnd {
		return []ast.Expr{e}
	}
	var all []ast.Expr
	for _, arg := range e.AsCall().Args() {
		all = append(all, conjuncts(arg)...)
	}
	return all
}

// namesIn has the variables that an expression names. One that a macro such as exists introduces hides the one of the policy only if it has the
// same name; such an expression is refused at most, and never evaluated without a value.
func namesIn(e ast.Expr) map[string]bool {
	names := map[string]bool{}
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(node ast.Expr) {
		if node.Kind() == ast.IdentKind {
			names[node.AsIdent()] = true
		}
	}))
	return names
}

// fieldsIn has the names of the fields that an expression reads.
func fieldsIn(e ast.Expr) map[string]bool {
	fields := map[string]bool{}
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(node ast.Expr) {
		if node.Kind() == ast.SelectKind {
			fields[node.AsSelect().FieldName()] = true
		}
	}))
	return fields
}

// program joins checked parts of an expression; without any it is nil.
func program(env *cel.Env, whole *ast.AST, parts []ast.Expr) (cel.Program, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	factory, joined := ast.NewExprFactory(), parts[0]
	ids := ast.MaxID(whole)
	references, types := whole.ReferenceMap(), whole.TypeMap()
	for _, part := range parts[1:] {
		ids++
		joined = factory.NewCall(ids, operators.LogicalAnd, joined, part)
		references[ids] = ast.NewFunctionReference("logical_and")
		types[ids] = cel.BoolType
	}
	checked := ast.NewCheckedAST(ast.NewAST(joined, whole.SourceInfo()), types, references)
	return env.PlanProgram(checked, cel.CostLimit(MaxCost), cel.EvalOptions(cel.OptOptimize))
}

// Placed reports whether the expression is about images or workloads.
func (s *Selector) Placed() bool { return s.place != nil }

// Scores reports whether the expression may read figures that change with the database for most vulnerabilities, such as EPSS.
func (s *Selector) Scores() bool { return s.scores }

// Finding reports whether a finding is selected, if it is in a place that is. An error says that the expression cannot be evaluated for it.
func (s *Selector) Finding(f *Finding) (bool, error) {
	return evaluate(s.finding, map[string]any{variableFinding: f})
}

// Place reports whether a workload that runs an image is selected. An error says that the expression cannot be evaluated for it.
func (s *Selector) Place(i *Image, w *Workload) (bool, error) {
	return evaluate(s.place, map[string]any{variableImage: i, variableWorkload: w})
}

func evaluate(p cel.Program, facts map[string]any) (bool, error) {
	if p == nil {
		return true, nil
	}
	value, _, err := p.Eval(facts)
	if err != nil {
		return false, err
	}
	selected, is := value.Value().(bool)
	if !is {
		return false, errors.New("the expression is neither true nor false")
	}
	return selected, nil
}
