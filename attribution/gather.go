package attribution

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// gather sums stacks by row, by (row, block) and by (row, function).
type gather struct {
	rules   *Rules
	opts    Options
	charger *charger

	notes   []string // unattributed kinds, in order of appearance
	buckets []bucket // layers in display order, then notes

	samples, value int64
	blocks         int  // highest label + 1
	unblocked      bool // a sample carries no block label
}

type bucket struct {
	name, about    string
	samples, value int64
	byBlock        map[int]int64
	byFunction     map[Frame]weight
}

type weight struct{ samples, value int64 }

func newGather(r *Rules, o Options) *gather {
	g := &gather{rules: r, opts: o, charger: newCharger(r, o.Charge, o.KernelToOwner), blocks: o.Blocks}
	for i, name := range r.names {
		g.buckets = append(g.buckets, newBucket(name, r.about[i]))
	}
	return g
}

func newBucket(name, about string) bucket {
	return bucket{name: name, about: about, byBlock: map[int]int64{}, byFunction: map[Frame]weight{}}
}

func (g *gather) addAll(p *Profile) error {
	for i := range p.Stacks {
		s := &p.Stacks[i]
		if s.Value < 0 || s.Count < 0 {
			return errors.New("profile has negative samples: a difference of profiles has no shares")
		}
		if s.Block != NoBlock && (s.Block < 0 || s.Block >= MaxBlocks) {
			return fmt.Errorf("profile has block label %d: want 0..%d", s.Block, MaxBlocks-1)
		}
		if s.Count > math.MaxInt64-g.samples || s.Value > math.MaxInt64-g.value {
			return errors.New("profile's samples overflow 64 bits")
		}
		g.add(s)
	}
	return nil
}

func (g *gather) add(s *Stack) {
	v := g.charger.judge(s)
	b := g.bucket(v)
	g.samples += s.Count
	g.value += s.Value
	b.samples += s.Count
	b.value += s.Value
	w := b.byFunction[v.self]
	b.byFunction[v.self] = weight{w.samples + s.Count, w.value + s.Value}
	if s.Block == NoBlock {
		g.unblocked = true
		return
	}
	b.byBlock[s.Block] += s.Value
	g.blocks = max(g.blocks, s.Block+1)
}

func (g *gather) bucket(v verdict) *bucket {
	if v.layer >= 0 {
		return &g.buckets[v.layer]
	}
	i := slices.Index(g.notes, v.note)
	if i < 0 {
		i = len(g.notes)
		g.notes = append(g.notes, v.note)
		g.buckets = append(g.buckets, newBucket(v.note, aboutNote(v.note)))
	}
	return &g.buckets[len(g.rules.names)+i]
}

func aboutNote(note string) string {
	switch note {
	case NoteMissing:
		return "samples with no stack"
	case NoteLost:
		return "samples whose stack found the table full"
	case NoteTruncated:
		return "stacks cut at the root before their owner"
	}
	return "noted by the profiler"
}

// rows turns the sums into figures.
func (g *gather) rows(total int64, unit string) (Bootstrap, []Row, []Row) {
	boot, intervals := g.intervals()
	values := make([]int64, len(g.buckets))
	for i, b := range g.buckets {
		values[i] = b.value
	}
	parts := Apportion(total, values)
	all := make([]Row, len(g.buckets))
	for i, b := range g.buckets {
		row := Row{
			Layer: b.name, About: b.about, Samples: b.samples, SampledNs: b.value, Ns: parts[i],
			Share: Estimate{Value: ratio(b.value, g.value)}, TooFew: boot.TooFew,
		}
		if intervals != nil {
			row.Share.Interval = &intervals[i]
		}
		if row.TooFew == "" && b.samples < MinSamples {
			row.TooFew = fmt.Sprintf("%d samples, want %d", b.samples, MinSamples)
		}
		row.MsPerRequest = estimatePerRequest(row.Share, total, g.opts.Requests, unit)
		row.Functions = g.functions(b, total, unit)
		all[i] = row
	}
	n := len(g.rules.names)
	unattributed := all[n:]
	slices.SortFunc(unattributed, func(a, b Row) int { return cmp.Compare(a.Layer, b.Layer) })
	return boot, all[:n:n], unattributed
}

func estimatePerRequest(share Estimate, total int64, requests uint64, unit string) *Estimate {
	value := perRequest(share.Value*float64(total), requests, unit)
	if value == nil {
		return nil
	}
	e := &Estimate{Value: *value}
	if iv := share.Interval; iv != nil {
		scale := float64(total) / float64(requests) / 1e6
		e.Interval = &Interval{iv.Lo * scale, iv.Hi * scale}
	}
	return e
}

func (g *gather) functions(b bucket, total int64, unit string) []Function {
	if g.opts.TopFunctions < 0 {
		return nil
	}
	var out []Function
	for f, w := range b.byFunction {
		if f == (Frame{}) {
			continue
		}
		share := ratio(w.value, g.value)
		out = append(out, Function{
			Name: f.Function, Mapping: f.Mapping, Samples: w.samples, Share: share,
			Ns:           int64(math.Round(share * float64(total))),
			MsPerRequest: perRequest(share*float64(total), g.opts.Requests, unit),
		})
	}
	slices.SortFunc(out, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(b.Samples, a.Samples),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Mapping, b.Mapping))
	})
	return out[:min(len(out), g.opts.TopFunctions)]
}
