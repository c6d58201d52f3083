package cgroup

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// Bounds of what is looked at and named.
const (
	maxSiblings = 4096
	maxNearby   = 3
)

// Nearby names groups that a path may have meant that leads nowhere: of the
// deepest ancestor that exists, the children with names like the missing one,
// else the first of all. It is a courtesy: what cannot be read gives none.
func (r Roots) Nearby(group string) []string {
	if CheckPath(group) != nil || r.V2 == "" || group == "/" {
		return nil
	}
	parent, missing := path.Split(group)
	parent = path.Clean(parent)
	for {
		if info, err := os.Stat(r.Dir(parent)); err == nil && info.IsDir() {
			break
		}
		if parent == "/" {
			return nil
		}
		missing = path.Base(parent)
		parent = path.Dir(parent)
	}
	dir, err := os.Open(r.Dir(parent))
	if err != nil {
		return nil
	}
	defer dir.Close()
	entries, _ := dir.ReadDir(maxSiblings)
	type sibling struct {
		name     string
		distance int
	}
	var all []sibling
	for _, e := range entries {
		if e.IsDir() {
			all = append(all, sibling{e.Name(), distance(strings.ToLower(missing), strings.ToLower(e.Name()))})
		}
	}
	slices.SortFunc(all, func(a, b sibling) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	like := slices.DeleteFunc(slices.Clone(all), func(s sibling) bool {
		return s.distance > max(2, len(missing)/3) && !strings.HasPrefix(s.name, missing) && !strings.HasPrefix(missing, s.name)
	})
	if len(like) == 0 {
		like = all
		slices.SortFunc(like, func(a, b sibling) int { return cmp.Compare(a.name, b.name) })
	}
	var out []string
	for _, s := range like[:min(len(like), maxNearby)] {
		out = append(out, path.Join(parent, s.name))
	}
	return out
}

// nearbyText is Nearby as the end of an error, "" for none.
func (r Roots) nearbyText(group string) string {
	near := r.Nearby(group)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf(" (there is %s)", strings.Join(near, ", "))
}

// distance is how many bytes have to be changed, added or left out to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
