// Prog is a program whose inlined calls, generic functions, methods and
// closures the tests of package symbol look up.
package main

import (
	"os"
	"sort"
	"strings"
)

type number interface{ ~int | ~float64 }

type tree[T number] struct {
	left, right *tree[T]
	value       T
}

func (t *tree[T]) insert(v T) *tree[T] {
	if t == nil {
		return &tree[T]{value: v}
	}
	if v < t.value {
		t.left = t.left.insert(v)
	} else {
		t.right = t.right.insert(v)
	}
	return t
}

func (t *tree[T]) sum() T {
	if t == nil {
		return 0
	}
	return double(t.value) + t.left.sum() + t.right.sum()
}

func double[T number](v T) T { return v + v }

func small(x int) int { return x*31 + 7 }

func middle(x int) int {
	s := 0
	for i := 0; i < x; i++ {
		s += small(i) ^ small(x)
	}
	return s
}

func outer(x int) int { return middle(x) + small(middle(x+1)) }

//go:noinline
func Hot(x int) int { return outer(x) + outer(x+2) }

type words []string

func (w words) Len() int           { return len(w) }
func (w words) Less(i, j int) bool { return strings.ToLower(w[i]) < strings.ToLower(w[j]) }
func (w words) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

func main() {
	n := len(os.Args) * 100
	ints, floats := (*tree[int])(nil), (*tree[float64])(nil)
	for i := range n {
		ints = ints.insert(i * 7919 % 1009)
		floats = floats.insert(float64(i))
	}
	w := words(strings.Fields("the quick brown fox jumps over the lazy dog"))
	sort.Sort(w)
	show := func(v int) { os.Stdout.WriteString(strings.Repeat(w[0], v%3) + "\n") }
	show(Hot(n) + ints.sum() + int(floats.sum()))
}
