package match

import (
	"errors"
	"fmt"
	"strings"

	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/grype/grype/version"
	syftpkg "github.com/anchore/syft/syft/pkg"
)

// maxConstraintParts bounds the comparisons of one constraint.
const maxConstraintParts = 20

// Versions compares versions of packages as Grype does. The zero value is ready.
type Versions struct{}

// Constraint says what is wrong with a constraint such as "<2.17" or ">=1.0, <2.17 || =3.0": comparisons with <, <=, >, >= and
// =, where a comma means "and" and || means "or", which binds less. "=3.0*" accepts versions that begin with 3.0.
func (Versions) Constraint(text string) error {
	parts := 0
	for alternative := range strings.SplitSeq(text, "||") {
		for comparison := range strings.SplitSeq(alternative, ",") {
			parts++
			if err := checkComparison(strings.TrimSpace(comparison)); err != nil {
				return err
			}
		}
	}
	if parts > maxConstraintParts {
		return fmt.Errorf("it has %d comparisons, more than the limit of %d", parts, maxConstraintParts)
	}
	return nil
}

func checkComparison(comparison string) error {
	operand := strings.TrimLeft(comparison, "<>=")
	switch operator := comparison[:len(comparison)-len(operand)]; operator {
	case "<", "<=", ">", ">=", "=":
	case "":
		return fmt.Errorf("%q does not start with one of the operators <, <=, >, >=, =", comparison)
	default:
		return fmt.Errorf("%q is not one of <, <=, >, >=, =", operator)
	}
	operand = strings.TrimSpace(operand)
	if operand == "" {
		return errors.New("a comparison has no version")
	}
	if _, ok := beginning(comparison); !ok && strings.Contains(operand, "*") {
		return fmt.Errorf("%q contains *, which is only allowed at the end of a comparison with =", comparison)
	}
	for _, r := range operand {
		if r <= ' ' || r > '~' || strings.ContainsRune(`<>=!|&"'()`, r) {
			return fmt.Errorf("the version %q contains the invalid character %q", operand, r)
		}
	}
	return nil
}

// beginning is what versions begin with that satisfy a comparison such as "=3.0*"; ok is false for other comparisons.
func beginning(comparison string) (text string, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimSpace(comparison), "=")
	if !ok {
		return "", false
	}
	text, ok = strings.CutSuffix(strings.TrimSpace(text), "*")
	return text, ok && !strings.Contains(text, "*")
}

// Satisfies reports whether a version of a package of that type satisfies a constraint, by the rules of the type where it has
// any that can read both, and else by Grype's guess. An error says that even that cannot compare them.
func (Versions) Satisfies(packageType, packageVersion, constraint string) (bool, error) {
	if !strings.Contains(constraint, "*") {
		return satisfiesComparisons(packageType, packageVersion, constraint)
	}
	var failed error
	for alternative := range strings.SplitSeq(constraint, "||") {
		begins, comparisons := true, []string{}
		for comparison := range strings.SplitSeq(alternative, ",") {
			if text, ok := beginning(comparison); ok {
				begins = begins && strings.HasPrefix(packageVersion, text)
			} else {
				comparisons = append(comparisons, comparison)
			}
		}
		if !begins {
			continue
		}
		if len(comparisons) == 0 {
			return true, nil
		}
		ok, err := satisfiesComparisons(packageType, packageVersion, strings.Join(comparisons, ","))
		if ok {
			return true, nil
		}
		failed = errors.Join(failed, err)
	}
	return false, failed
}

func satisfiesComparisons(packageType, packageVersion, constraint string) (bool, error) {
	format := pkg.VersionFormat(pkg.Package{Type: syftpkg.Type(packageType)})
	ok, err := satisfies(packageVersion, constraint, format)
	if err != nil && format != version.UnknownFormat {
		ok, err = satisfies(packageVersion, constraint, version.UnknownFormat)
	}
	if err != nil {
		return false, fmt.Errorf("compare version %.80q with %.80q: %w", packageVersion, constraint, err)
	}
	return ok, nil
}

// Compare compares versions of packages of that type, by the rules of the type where it has any that can read both, and else by Grype's guess. An error
// says that even that cannot compare them.
func (Versions) Compare(packageType, a, b string) (int, error) {
	format := pkg.VersionFormat(pkg.Package{Type: syftpkg.Type(packageType)})
	order, err := compareVersions(a, b, format)
	if err != nil && format != version.UnknownFormat {
		order, err = compareVersions(a, b, version.UnknownFormat)
	}
	if err != nil {
		return 0, fmt.Errorf("compare version %.80q with %.80q: %w", a, b, err)
	}
	return order, nil
}

func compareVersions(a, b string, format version.Format) (order int, err error) {
	defer func() { // the versions come from strangers
		if p := recover(); p != nil {
			order, err = 0, fmt.Errorf("the comparison failed: %v", p)
		}
	}()
	return version.New(a, format).Compare(version.New(b, format))
}

func satisfies(packageVersion, constraint string, format version.Format) (ok bool, err error) {
	defer func() { // the versions come from strangers
		if p := recover(); p != nil {
			ok, err = false, fmt.Errorf("the comparison failed: %v", p)
		}
	}()
	parsed, err := version.GetConstraint(constraint, format)
	if err != nil {
		return false, err
	}
	return parsed.Satisfied(version.New(packageVersion, format))
}
