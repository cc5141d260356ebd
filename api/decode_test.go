package api_test

import (
	stdjson "encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schemaversion "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
)

// numbers are values for all integers: a type may hold fewer than the schema permits.
var numbers = []string{
	"1", "100", "0", "-1", "5.0", "5e0", "-0", "-0.0", "1.5", "2147483648", "-2147483649", "3e9", "9007199254740993", "9007199254740993.0", "9223372036854775807",
	"9223372036854775808", "-9223372036854775809", "1e18", "9.3e18", "1e30", "1e400", `"1"`, "null", "[]", "true",
}

// strict are the types whose decoding refuses some values of their JSON type, with values for all fields of the type. A type without values decodes all.
var strict = map[reflect.Type][]string{
	reflect.TypeFor[runtime.RawExtension](): nil,
	reflect.TypeFor[scannerv1alpha1.Timestamp](): {
		`"2027-03-31T00:00:00Z"`, `"2028-02-29T23:59:59.999999999+23:59"`, `"0000-01-01T00:00:00-23:59"`, `"9999-12-31T23:59:59.` + strings.Repeat("9", 40) + `Z"`,
		`"2027-03-31t00:00:00z"`, `"2027-03-31T00:00:00z"`, `"2027-03-31t00:00:00Z"`, `"2027-03-31T00:00:00+99:99"`, `"2027-03-31T00:00:00+24:00"`, `"2027-03-31T00:00:00-23:60"`,
		`"2027-03-31T00:00:00ZTanything"`, `"2027-03-31T00:00:00Z\n"`, `"2027-03-31T00:00:00,5Z"`, `"2027-03-31T00:00:00x5Z"`, `"2027-03-31T00:00:00.Z"`, `"2027-03-31T00:00:00"`,
		`"2027-02-29T00:00:00Z"`, `"2027-02-31T00:00:00Z"`, `"2027-00-01T00:00:00Z"`, `"2027-13-01T00:00:00Z"`, `"2027-01-00T00:00:00Z"`, `"2027-01-32T00:00:00Z"`,
		`"2027-03-31T24:00:00Z"`, `"2027-03-31T23:60:00Z"`, `"2027-03-31T23:59:60Z"`, `"10000-01-01T00:00:00Z"`, `"-2027-01-01T00:00:00Z"`, `"2027-03-31"`, `"tomorrow"`, `""`, `"` + "\u0662" + `027-03-31T00:00:00Z"`, "0", "null",
	},
	reflect.TypeFor[metav1.Duration](): {
		`"1h"`, `"1h0m0s"`, `"0s"`, `"24h"`, `"1.5h"`, `".5h"`, `"1h1h"`, `"-1h"`, `"+1h"`, `"1d"`, `"1H"`, `"60"`, `"0"`, `""`, `" 1h"`, `"9999999h"`, `"99999999999999999999h"`,
		`"1.99999999999999999999999999h"`, `"9223372036.854775807s"`, `"9223372036.854775808s"`, `"1µs"`, "3600", "0", "1.5", "null",
	},
	reflect.TypeFor[resource.Quantity](): {
		`"1Gi"`, `"500m"`, "5", "0", "5.0", "1.5", "1e21", "1e400", "9223372036854775808", `"1e3"`, `"1e1.5"`, `"1E+"`, `"1e99"`, `"1e-99"`, `"1e100"`, `"1e99999999999999999999"`, `".5"`, `"5."`, `"."`, `"+.5Ei"`, `"-1"`, `"+"`,
		`"9999999999999999999"`, `"99999999999999999999999"`, `"0.123456789"`, `"0.1234567891"`, `"9999999999999999999.999999999Ei"`, `"9999999999999999999.n"`, `"1ki"`, `"1K"`, `"1 Gi"`, `"1Gi\n"`, `""`, `"0x10"`, `"NaN"`, "true", "null",
	},
}

// decoded reports whether the operator can read a value of a type.
func decoded(of reflect.Type, stored []byte) error {
	into := reflect.New(of)
	if err := json.Unmarshal(stored, into.Interface()); err != nil {
		return err
	}
	if at, is := reflect.TypeAssert[*scannerv1alpha1.Timestamp](into); is && string(stored) != "null" {
		_, err := at.Time()
		return err
	}
	return nil
}

// decoding walks the schema of a kind beside its Go type.
type decoding struct {
	*testing.T
	found map[reflect.Type]int
}

// TestWhatIsAdmittedIsDecoded expects the operator to be able to read each object that an API server admits. One that it cannot decode, of any namespace,
// would keep it from listing and watching all objects of the kind. Statuses are left out: creations drop them, and only the operator may write them.
func TestWhatIsAdmittedIsDecoded(t *testing.T) {
	known, found := scheme(t), map[reflect.Type]int{}
	for kind, d := range definitions(t) {
		version := d.crd.Spec.Versions[0]
		if sub, err := apiextensions.GetSubresourcesForVersion(d.crd, version.Name); err != nil || sub == nil || sub.Status == nil {
			t.Errorf("%s has no subresource status: users can write it (%v)", kind, err)
		}
		openAPI, err := apiextensions.GetSchemaForVersion(d.crd, version.Name)
		if err != nil {
			t.Fatal(err)
		}
		typed, err := known.New(schemaversion.GroupVersionKind{Group: d.crd.Spec.Group, Version: version.Name, Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		spec, has := reflect.TypeOf(typed).Elem().FieldByName("Spec")
		if !has {
			t.Fatalf("%s has no spec", kind)
		}
		props, structural := openAPI.OpenAPIV3Schema.Properties["spec"], d.structural.Properties["spec"]
		decoding{t, found}.walk(kind+".spec", spec.Type, &props, &structural)
	}
	for of, values := range strict {
		if found[of] == 0 {
			t.Errorf("no field has the type %s, or all values", of)
		}
		refused := 0
		for _, value := range values {
			if decoded(of, []byte(value)) != nil {
				refused++
			}
		}
		if len(values) > 0 && refused == 0 {
			t.Errorf("%s decodes all values", of)
		}
	}
}

func (d decoding) walk(path string, of reflect.Type, props *apiextensions.JSONSchemaProps, structural *schema.Structural) {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	jsonType := func(want string) {
		if props.Type != want {
			d.Errorf("%s: %s is read from type %q of the schema, want %q", path, of, props.Type, want)
		}
	}
	values, isStrict := strict[of]
	switch {
	case isStrict:
		d.found[of]++
		d.values(path, of, values, props, structural)
		return
	case reflect.PointerTo(of).Implements(reflect.TypeFor[stdjson.Unmarshaler]()):
		d.Errorf("%s: %s has a decoder of its own: state values that it refuses", path, of)
		return
	}
	switch of.Kind() {
	case reflect.String:
		jsonType("string")
	case reflect.Bool:
		jsonType("boolean")
	case reflect.Int32, reflect.Int64:
		jsonType("integer")
		d.values(path, of, numbers, props, structural)
	case reflect.Slice:
		jsonType("array")
		if of.Elem().Kind() == reflect.Uint8 || props.Items == nil || props.Items.Schema == nil {
			d.Errorf("%s: a list of %s cannot be walked", path, of.Elem())
			return
		}
		d.walk(path+"[]", of.Elem(), props.Items.Schema, structural.Items)
	case reflect.Map:
		jsonType("object")
		if of.Key().Kind() != reflect.String || props.AdditionalProperties == nil || props.AdditionalProperties.Schema == nil {
			d.Errorf("%s: %s cannot be walked", path, of)
			return
		}
		d.walk(path+"{}", of.Elem(), props.AdditionalProperties.Schema, structural.AdditionalProperties.Structural)
	case reflect.Struct:
		jsonType("object")
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			field, has := props.Properties[name]
			if !has {
				d.Errorf("%s.%s: the schema has no %q", path, of.Field(i).Name, name)
				continue
			}
			below := structural.Properties[name]
			d.walk(path+"."+name, of.Field(i).Type, &field, &below)
		}
	default:
		d.Errorf("%s: %s cannot be walked", path, of)
	}
}

// values decodes those values that the schema of a field permits.
func (d decoding) values(path string, of reflect.Type, values []string, props *apiextensions.JSONSchemaProps, structural *schema.Structural) {
	validator, _, err := schemavalidation.NewSchemaValidator(props)
	if err != nil {
		d.Fatal(err)
	}
	rules, permitted := cel.NewValidator(structural, false, celconfig.PerCallLimit), 0
	for _, text := range values {
		// An object around it, because that is what an API server reads, and how it distinguishes integers.
		var object map[string]any
		if err := json.Unmarshal([]byte(`{"value":`+text+`}`), &object); err != nil {
			continue
		}
		value := object["value"]
		if len(schemavalidation.ValidateCustomResource(nil, value, validator)) > 0 {
			continue
		}
		if errs, _ := rules.Validate(d.Context(), nil, structural, value, nil, celconfig.RuntimeCELCostBudget); len(errs) > 0 {
			continue
		}
		permitted++
		stored, err := json.Marshal(value)
		if err != nil {
			d.Fatal(err)
		}
		if err := decoded(of, stored); err != nil {
			d.Errorf("%s: the schema permits %s, and decoding fails: %v", path, text, err)
		}
	}
	if len(values) > 0 && permitted == 0 {
		d.Errorf("%s: the schema permits none of the values, so that nothing is tested", path)
	}
}
