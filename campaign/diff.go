package campaign

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Differences names what differs between two plans, or any two values with a
// JSON form, by path: "load.connections was 1, is 2". Equal values have none.
func Differences(was, is any) ([]string, error) {
	a, err := plain(was)
	if err != nil {
		return nil, err
	}
	b, err := plain(is)
	if err != nil {
		return nil, err
	}
	return differences("", a, b), nil
}

// plain is a value as JSON has it: maps, lists and scalars.
func plain(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	return out, nil
}

func differences(path string, was, is any) []string {
	switch a := was.(type) {
	case map[string]any:
		b, ok := is.(map[string]any)
		if !ok {
			break
		}
		keys := map[string]bool{}
		for k := range a {
			keys[k] = true
		}
		for k := range b {
			keys[k] = true
		}
		var out []string
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			out = append(out, differences(join(path, k), a[k], b[k])...)
		}
		return out
	case []any:
		b, ok := is.([]any)
		if !ok || len(a) != len(b) {
			break
		}
		var out []string
		for i := range a {
			out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), a[i], b[i])...)
		}
		return out
	}
	if text(was) == text(is) {
		return nil
	}
	return []string{fmt.Sprintf("%s was %s, is %s", path, text(was), text(is))}
}

func text(v any) string {
	if v == nil {
		return "not there"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(data) > 200 {
		return string(data[:200]) + "…"
	}
	return string(data)
}
