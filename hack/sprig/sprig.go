// Package sprig has the functions of github.com/Masterminds/sprig that Syft compiles against, for the templates that its users write. The operator
// offers Syft's format of templates to nobody. docs/decisions/0113-size-of-the-program-again.md has the figures.
package sprig

import "text/template"

// HermeticTxtFuncMap returns no functions.
func HermeticTxtFuncMap() template.FuncMap { return template.FuncMap{} }

// TxtFuncMap returns no functions.
func TxtFuncMap() template.FuncMap { return template.FuncMap{} }
