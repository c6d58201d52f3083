package attribution

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Attribute charges every stack of p to a layer of r, or to a visible row of
// unattributed time, and makes the table. Nothing is spread: what has no stack
// stays a row of its own.
func Attribute(p *Profile, r *Rules, o Options) (*Table, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	t := &Table{
		Charge: o.Charge, KernelToOwner: o.KernelToOwner, Unit: p.Unit, Requests: o.Requests,
		Warnings: slices.Clone(p.Warnings),
	}
	g := newGather(r, o)
	if err := g.addAll(p); err != nil {
		return nil, err
	}
	t.Samples, t.SampledNs = g.samples, g.value
	t.TotalNs = g.value
	if o.ChargedNs != nil {
		if p.Unit != "nanoseconds" {
			return nil, fmt.Errorf("profile in %s cannot apportion charged CPU time: want a CPU profile in nanoseconds", p.Unit)
		}
		t.TotalNs, t.TotalFromAccount = *o.ChargedNs, true
		if g.value == 0 && *o.ChargedNs > 0 {
			t.Warnings = append(t.Warnings, "no sample: charged CPU time is not apportioned to any layer")
			t.TotalNs = 0
		}
	}
	if o.UsageNs != nil && o.ChargedNs != nil {
		t.Residual = residual(*o.UsageNs, *o.ChargedNs, o.Requests)
	}
	t.MsPerRequest = perRequest(float64(t.TotalNs), o.Requests, t.Unit)
	t.Bootstrap, t.Rows, t.Unattributed = g.rows(t.TotalNs, t.Unit)
	return t, nil
}

func (o *Options) fill() error {
	o.Charge = cmp.Or(o.Charge, Leaf)
	if _, err := ParseCharge(string(o.Charge)); err != nil {
		return err
	}
	if o.KernelToOwner && o.Charge != Owner {
		return errors.New("kernel time moves to its owner only with charge owner")
	}
	if o.ChargedNs != nil && *o.ChargedNs < 0 || o.UsageNs != nil && *o.UsageNs < 0 {
		return errors.New("charged CPU time and usage cannot be negative")
	}
	if o.Blocks < 0 || o.Blocks > MaxBlocks {
		return fmt.Errorf("%d bootstrap blocks: want 0..%d", o.Blocks, MaxBlocks)
	}
	if o.Resamples < 0 || o.Resamples > 1_000_000 {
		return fmt.Errorf("%d resamples: want 0..1000000", o.Resamples)
	}
	o.Resamples = cmp.Or(o.Resamples, DefaultResamples)
	o.Seed = cmp.Or(o.Seed, 1)
	o.TopFunctions = cmp.Or(o.TopFunctions, DefaultTopFunctions)
	return nil
}

func residual(usage, charged int64, requests uint64) *Residual {
	r := &Residual{UsageNs: usage, ChargedNs: charged, Ns: usage - charged}
	if usage > 0 {
		r.Share = float64(r.Ns) / float64(usage)
	}
	r.MsPerRequest = perRequest(float64(r.Ns), requests, "nanoseconds")
	return r
}

// perRequest is nil where a figure per request makes no sense.
func perRequest(ns float64, requests uint64, unit string) *float64 {
	if requests == 0 || unit != "nanoseconds" {
		return nil
	}
	v := ns / float64(requests) / 1e6
	return &v
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Apportion splits total in proportion to values, in whole units that add up to
// it (largest remainder; ties to the first). All values 0: nothing is split.
func Apportion(total int64, values []int64) []int64 {
	parts := make([]int64, len(values))
	var sum uint64
	for _, v := range values {
		sum += uint64(v)
	}
	if sum == 0 || total <= 0 {
		return parts
	}
	type remainder struct {
		i int
		r uint64
	}
	rest := total
	rems := make([]remainder, len(values))
	for i, v := range values {
		// 128-bit product: both factors may be large nanosecond counts.
		hi, lo := bits.Mul64(uint64(total), uint64(v))
		q, r := bits.Div64(hi, lo, sum)
		parts[i], rems[i] = int64(q), remainder{i, r}
		rest -= int64(q)
	}
	slices.SortStableFunc(rems, func(a, b remainder) int { return cmp.Compare(b.r, a.r) })
	for k := range rest {
		parts[rems[k].i]++
	}
	return parts
}
