//go:build linux

package main

import (
	"fmt"
	"slices"

	"github.com/google/pprof/profile"
	"github.com/spf13/pflag"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/attribution"
)

func addGroupFlag(f *pflag.FlagSet, rules *[]string) {
	f.StringArrayVar(rules, "group", nil,
		"thread group as NAME=REGEXP: the threads whose whole name matches (the kernel keeps 15 bytes of it), as in gc=G1.*; may be repeated, the first match wins; other names have their digits folded to *")
}

// threadGroups are those of the flags and, behind them, those of rule files; nil
// where there are none.
func threadGroups(flags []string, rules *attribution.Rules) (*attribution.Grouper, error) {
	all := slices.Concat(flags, rules.Grouper().Rules())
	if len(all) == 0 {
		return nil, nil
	}
	g, err := attribution.NewGrouper(all...)
	if err != nil {
		return nil, fmt.Errorf("--group: %w", err)
	}
	return g, nil
}

// groupedRecord is a record whose threads are put into groups: account, wakers and
// profile by the same decision.
type groupedRecord struct {
	groups   *attribution.Grouper
	threads  []attribution.Thread
	wakers   []attribution.Waker
	warnings []string
}

// groupRecord forms the groups of a record by g, or by those that it was made
// with if g is nil.
func groupRecord(r *rungv1.StepRecord, g *attribution.Grouper) (*groupedRecord, error) {
	made := attribution.SingleThreads()
	if c := r.GetConfig(); !c.GetSingleThreads() {
		var err error
		if made, err = attribution.NewGrouper(c.GetThreadGroups()...); err != nil {
			return nil, fmt.Errorf("the record's %w", err)
		}
	}
	anew := g != nil && (g.Single() != made.Single() || !slices.Equal(g.Rules(), made.Rules()))
	if g == nil {
		g = made
	}
	out := &groupedRecord{groups: g, threads: accountThreads(r), wakers: accountWakers(r)}
	var names []string
	folded, whole := 0, 0
	for i := range out.threads {
		t := &out.threads[i]
		if t.Folded > 0 {
			t.Group = t.Comm
			folded += t.Folded
			continue
		}
		t.Group = g.Group(t.Comm, t.Tid)
		names = append(names, t.Comm)
	}
	for i := range out.wakers {
		if !out.wakers[i].Regroup(g) {
			whole++
		}
	}
	if anew {
		out.warnings = g.Warnings(names)
		if folded > 0 {
			out.warnings = append(out.warnings, fmt.Sprintf("%d threads stay in the groups that they were summed by when they were measured", folded))
		}
		if whole > 0 {
			out.warnings = append(out.warnings, fmt.Sprintf("%d wakers stay with the thread groups that they were summed by when they were measured", whole))
		}
	}
	return out, nil
}

// account sums the threads. r says what is idle; nil: nothing.
func (g *groupedRecord) account(windowNs int64, r *attribution.Rules) (*attribution.Account, error) {
	account, err := attribution.NewAccount(g.threads, windowNs, r)
	if err != nil {
		return nil, err
	}
	account.AddWakers(g.wakers, r)
	return account, nil
}

// profile unpacks the record's profile.
func (g *groupedRecord) profile(gz []byte) (*profile.Profile, error) {
	p, err := readPprof(gz)
	if err != nil {
		return nil, err
	}
	attribution.Regroup(p, g.groups)
	return p, nil
}
