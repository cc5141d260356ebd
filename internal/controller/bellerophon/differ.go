package bellerophon

import (
	"fmt"
	"slices"
	"strings"
)

// listKeys are the fields that identify the elements of a list, for the lists that have one. The API server merges these lists by key, so other
// clients may add elements.
var listKeys = []string{"uid", "mountPath", "name"}

// firstDifference returns the path of the first field, in alphabetical order, that differs from the desired one in the live object, "" when there is
// none. Other fields of the live object belong to the API server or to other clients.
func firstDifference(desired, live any) string {
	path := difference(desired, live)
	return strings.TrimPrefix(path, ".")
}

func difference(desired, live any) string {
	switch desired := desired.(type) {
	case map[string]any:
		return differenceOfMaps(desired, live)
	case []any:
		return differenceOfLists(desired, live)
	default:
		if desired != live {
			return "."
		}
		return ""
	}
}

func differenceOfMaps(desired map[string]any, live any) string {
	there, _ := live.(map[string]any)
	names := make([]string, 0, len(desired))
	for name := range desired {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if path := difference(desired[name], there[name]); path != "" {
			return join("."+name, path)
		}
	}
	return ""
}

func differenceOfLists(desired []any, live any) string {
	there, _ := live.([]any)
	if key := listKey(desired); key != "" {
		return differenceByKey(desired, there, key)
	}
	if len(desired) != len(there) {
		return "."
	}
	for i := range desired {
		if path := difference(desired[i], there[i]); path != "" {
			return join(fmt.Sprintf("[%d]", i), path)
		}
	}
	return ""
}

func differenceByKey(desired, there []any, key string) string {
	for _, element := range desired {
		name := field(element, key)
		if path := difference(element, elementWith(there, key, name)); path != "" {
			return join(fmt.Sprintf("[%v]", name), path)
		}
	}
	return ""
}

// listKey returns the field by which the elements of a list are known, "" when the list is one whole.
func listKey(list []any) string {
	for _, key := range listKeys {
		if !slices.ContainsFunc(list, func(element any) bool { return field(element, key) == nil }) {
			return key
		}
	}
	return ""
}

func elementWith(list []any, key string, value any) any {
	i := slices.IndexFunc(list, func(element any) bool { return field(element, key) == value })
	if i < 0 {
		return nil
	}
	return list[i]
}

// field returns a field of an element, nil when it has none.
func field(element any, name string) any {
	fields, _ := element.(map[string]any)
	return fields[name]
}

// join puts a path below another one; "." is the end of a path.
func join(path, below string) string {
	if below == "." {
		return path
	}
	return path + below
}
