package report

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/rungprof/rung/attribution"
)

// printed reads a figure as it was printed.
func printed(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(s), "−", "-"), 64)
	if err != nil {
		t.Fatalf("not a figure: %q", s)
	}
	return v
}

// within reports whether n rounded figures may add up to total: each, and the
// total itself, is off by half a unit of its last decimal.
func within(sum, total float64, n, decimals int) bool {
	return math.Abs(sum-total) <= float64(n+1)*0.5*math.Pow10(-decimals)+1e-9
}

func decimalsOf(s string) int {
	_, after, _ := strings.Cut(strings.TrimSpace(s), ".")
	return len(after)
}

func TestMatchedTableAddsUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		samples := map[string]int64{}
		left := int64(1000)
		for _, l := range []string{"syscalls", "runtime", "codec", "transport", "missing stack"} {
			n := rng.Int64N(left + 1)
			samples[l], left = n, left-n
		}
		samples["other"] = left
		m := &Matched{Columns: []MatchedArm{
			{Arm: "a", Table: table(math.Exp(4*rng.Float64()-6), samples)},
			{Arm: "b", Table: table(math.Exp(8*rng.Float64()-3), map[string]int64{"codec": 1000})},
		}}
		block := matchedTable(m)
		for column := 1; column < len(block.columns); column++ {
			var share, ms float64
			parts := 0
			for _, row := range block.rows {
				percent := strings.Fields(row.cells[column])[0]
				_, perReq, _ := strings.Cut(row.cells[column], "·")
				if row.cells[0] == "Σ charged" {
					if !within(share, 100, parts, 1) || !within(ms, printed(t, perReq), parts, decimalsOf(perReq)) {
						t.Fatalf("column %d adds up to %.1f %% and %f of %s:\n%v", column, share, ms, perReq, block.rows)
					}
					break
				}
				share += printed(t, percent)
				ms += printed(t, perReq)
				parts++
			}
		}
	}
}

func TestAccountTableAddsUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	reasons := []string{"futex", "read", "epoll_pwait", "page fault", "nanosleep"}
	for i := range 200 {
		var threads []attribution.Thread
		for g := range 1 + rng.IntN(12) {
			th := attribution.Thread{Comm: "group-" + string(rune('a'+g)), OnCPUWallNs: rng.Uint64N(2e9), RunQueueNs: rng.Uint64N(1e9), StoppedNs: rng.Uint64N(2) * 7e6}
			th.LifetimeNs = th.OnCPUWallNs + th.RunQueueNs + th.StoppedNs
			if i%2 == 0 {
				lo := rng.Uint64N(5e8)
				hi := lo + 1e6
				th.ThrottledLoNs, th.ThrottledHiNs = &lo, &hi
				th.LifetimeNs += lo
			}
			for _, reason := range reasons[:rng.IntN(len(reasons)+1)] {
				ns := rng.Uint64N([]uint64{3e6, 1e9}[rng.IntN(2)])
				th.Blocked = append(th.Blocked, attribution.Blocked{Reason: reason, Object: []string{"", "pipe"}[rng.IntN(2)], Limited: rng.IntN(2) == 0, Ns: ns, Intervals: 1})
				th.LifetimeNs += ns
			}
			threads = append(threads, th)
		}
		rules, err := attribution.Preset("go")
		if err != nil {
			t.Fatal(err)
		}
		account, err := attribution.NewAccount(threads, 5e9, rules)
		if err != nil {
			t.Fatal(err)
		}
		for _, width := range []int{0, 60, 100} {
			block := accountTable(account, width)
			checkAccountBlock(t, block)
		}
	}
}

// checkAccountBlock adds up each column to its lifetime and each row to `all`.
func checkAccountBlock(t *testing.T, block tableBlock) {
	t.Helper()
	last := len(block.rows) - 1
	all := len(block.columns) - 1
	for c := 1; c <= all; c++ {
		sum := 0.0
		for _, row := range block.rows[:last] {
			sum += printed(t, row.cells[c])
		}
		if !within(sum, printed(t, block.rows[last].cells[c]), last, 3) {
			t.Fatalf("column %v adds up to %f:\n%v", block.columns[c].head, sum, block.rows)
		}
	}
	for _, row := range block.rows {
		sum := 0.0
		for c := 1; c < all; c++ {
			sum += printed(t, row.cells[c])
		}
		if !within(sum, printed(t, row.cells[all]), all-1, 3) {
			t.Fatalf("row %v adds up to %f", row.cells, sum)
		}
	}
}
