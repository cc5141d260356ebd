package bellerophon

import (
	"fmt"
	"slices"
	"strings"
)

// listKeys are the fields that tell the elements of a list apart, for the lists that have them. The API server merges those lists by them,
// so others may add elements of their own.
var listKeys = []string{"uid", "mountPath", "name"}

// firstDifference returns the path of the first field, in alphabetical order, that is wanted and not so in the live object, "" when there is
// none. What the live object has besides belongs to the API server or to others.
func firstDifference(wanted, live any) string {
	path := difference(wanted, live)
	return strings.TrimPrefix(path, ".")
}

func difference(wanted, live any) string {
	switch wanted := wanted.(type) {
	case map[string]any:
		return differenceOfMaps(wanted, live)
	case []any:
		return differenceOfLists(wanted, live)
	default:
		if wanted != live {
			return "."
		}
		return ""
	}
}

func differenceOfMaps(wanted map[string]any, live any) string {
	there, _ := live.(map[string]any)
	names := make([]string, 0, len(wanted))
	for name := range wanted {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if path := difference(wanted[name], there[name]); path != "" {
			return join("."+name, path)
		}
	}
	return ""
}

func differenceOfLists(wanted []any, live any) string {
	there, _ := live.([]any)
	if key := listKey(wanted); key != "" {
		return differenceByKey(wanted, there, key)
	}
	if len(wanted) != len(there) {
		return "."
	}
	for i := range wanted {
		if path := difference(wanted[i], there[i]); path != "" {
			return join(fmt.Sprintf("[%d]", i), path)
		}
	}
	return ""
}

func differenceByKey(wanted, there []any, key string) string {
	for _, element := range wanted {
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
