package attribution

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// intervals bootstraps the share of each bucket over the window's blocks. nil
// when samples carry no block, or all the same one.
//
// Compilation, garbage collection and arrivals come in bursts longer than the
// sampling period, so samples within a block depend on each other and a binomial
// interval is too narrow. Blocks are drawn whole, with replacement, the shares
// of each draw are a ratio of sums (the total is drawn with them), and the
// interval is the percentile interval, widened for the number of blocks as
// Hesterberg proposes ("What Teachers Should Know about the Bootstrap", 2015,
// §4.1.3): the plain one is too narrow by the factor sqrt((n-1)/n) and by z/t.
//
// A row that few blocks hold shows its draws no spread to speak of; the interval
// is therefore never narrower than the binomial one (Wilson) of its samples,
// which for a row without samples says how much could have been missed.
func (g *gather) intervals() (Bootstrap, []Interval) {
	boot := Bootstrap{Resamples: g.opts.Resamples, Seed: g.opts.Seed, Confidence: Confidence}
	if g.unblocked || g.blocks < 2 || g.value == 0 {
		boot.TooFew = "samples carry no block label"
		if g.value == 0 {
			boot.TooFew = "no samples"
		} else if !g.unblocked {
			boot.TooFew = "one block"
		}
		return boot, nil
	}
	n := g.blocks
	boot.Blocks = n
	if n < MinBlocks {
		boot.TooFew = fmt.Sprintf("%d blocks, want %d", n, MinBlocks)
	}
	shares := g.draw(n)
	lo, hi := tails(n)
	out := make([]Interval, len(g.buckets))
	for i, b := range g.buckets {
		slices.Sort(shares[i])
		w := wilson(ratio(b.value, g.value), g.samples)
		out[i] = Interval{
			Lo: math.Max(0, math.Min(w.Lo, quantile(shares[i], lo))),
			Hi: math.Min(1, math.Max(w.Hi, quantile(shares[i], hi))),
		}
	}
	return boot, out
}

// draw returns the resampled shares of each bucket.
func (g *gather) draw(n int) [][]float64 {
	k := len(g.buckets)
	byBlock := make([]float64, n*k) // block-major
	for i, b := range g.buckets {
		for block, v := range b.byBlock {
			byBlock[block*k+i] = float64(v)
		}
	}
	shares := make([][]float64, k)
	for i := range shares {
		shares[i] = make([]float64, 0, g.opts.Resamples)
	}
	rng := rand.New(rand.NewPCG(g.opts.Seed, uint64(n)))
	sums := make([]float64, k)
	for range g.opts.Resamples {
		clear(sums)
		total := 0.0
		for range n {
			at := rng.IntN(n) * k
			for i, v := range byBlock[at : at+k] {
				sums[i] += v
				total += v
			}
		}
		if total == 0 {
			continue // all blocks drawn were empty
		}
		for i := range sums {
			shares[i] = append(shares[i], sums[i]/total)
		}
	}
	return shares
}

// tails returns the probabilities at which the resampled shares are cut.
func tails(n int) (lo, hi float64) {
	z := math.Sqrt(float64(n)/float64(n-1)) * student975(n-1)
	lo = 0.5 * math.Erfc(z/math.Sqrt2)
	return lo, 1 - lo
}

// student975 is the 97.5 % quantile of Student's t by the Cornish-Fisher series
// (Abramowitz and Stegun 26.7.5), good to 0.1 % from 5 degrees of freedom on and
// too small below, where intervals are marked too few anyway.
func student975(df int) float64 {
	const z = 1.959963984540054
	v := float64(df)
	z3, z5, z7 := z*z*z, math.Pow(z, 5), math.Pow(z, 7)
	return z + (z3+z)/(4*v) + (5*z5+16*z3+3*z)/(96*v*v) + (3*z7+19*z5+17*z3-15*z)/(384*v*v*v)
}

// quantile of sorted values, linear between neighbours; 0 of none.
func quantile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	x := p * float64(len(sorted)-1)
	i := int(x)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (x-float64(i))*(sorted[i+1]-sorted[i])
}

// wilson is the score interval of a share p of n independent samples.
func wilson(p float64, n int64) Interval {
	if n <= 0 {
		return Interval{0, 1}
	}
	const z = 1.959963984540054
	m := float64(n)
	mid := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return Interval{math.Max(0, math.Min(mid-half, p)), math.Min(1, math.Max(mid+half, p))}
}
