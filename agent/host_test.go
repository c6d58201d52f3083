package agent

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rungprof/rung/bpf"
)

func TestHost(t *testing.T) {
	root := fakeHost(t)
	h := readHost(filepath.Join(root, "proc"), filepath.Join(root, "sys"), "v2")
	if h.Lockdown != "confidentiality" || h.KptrRestrict != "2" || h.Cpus != 2 || h.CgroupMode != "v2" || h.Kernel == "" || h.TickNs == 0 {
		t.Errorf("host %v", h)
	}
	if len(h.ChargedOmits) == 1 && strings.HasPrefix(h.ChargedOmits[0], "unknown: ") && !strings.Contains(h.ChargedOmits[0], "config.gz") {
		t.Errorf("omits %q", h.ChargedOmits)
	}
	if real := readHost("/proc", "/sys", "v2"); real.Cpus == 0 || real.Arch == "" {
		t.Errorf("host %v", real)
	}
}

func TestChargedOmits(t *testing.T) {
	for config, want := range map[string]string{
		"CONFIG_X=y\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\n":             "",
		"CONFIG_IRQ_TIME_ACCOUNTING=y\nCONFIG_PARAVIRT_TIME_ACCOUNTING=y\n": "interrupts, time stolen",
		"CONFIG_PARAVIRT_TIME_ACCOUNTING=y\n":                               "time stolen",
		"CONFIG_IRQ_TIME_ACCOUNTING=n\n":                                    "",
		"":                                                                  "unknown: ",
		"no configuration at all\n":                                         "unknown: ",
	} {
		omits := chargedOmits(parseKernelConfig(strings.NewReader(config)))
		parts := strings.Split(want, ", ")
		if want == "" {
			parts = nil
		}
		if len(omits) != len(parts) {
			t.Errorf("%q: %q; want %q", config, omits, want)
			continue
		}
		for i, part := range parts {
			if !strings.HasPrefix(omits[i], part) {
				t.Errorf("%q: %q; want %q", config, omits, want)
			}
		}
	}
}

func FuzzParseKernelConfig(f *testing.F) {
	f.Add("CONFIG_IRQ_TIME_ACCOUNTING=y\n")
	f.Fuzz(func(t *testing.T, text string) {
		if options, err := parseKernelConfig(strings.NewReader(text)); (err == nil) == (options == nil) {
			t.Errorf("options %v and error %v", options, err)
		}
	})
}

func FuzzCountCPUs(f *testing.F) {
	f.Add("0-3,8\n")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := countCPUs(text); (err == nil) == (n == 0) {
			t.Errorf("%d CPUs and error %v", n, err)
		}
	})
}

func TestCountCPUs(t *testing.T) {
	for list, want := range map[string]uint32{"0": 1, "0-3": 4, "0-3,8\n": 5, "0,2,4-5": 4} {
		if n, err := countCPUs(list); err != nil || n != want {
			t.Errorf("countCPUs(%q) = %d, %v", list, n, err)
		}
	}
}

func FuzzParseSchedstat(f *testing.F) {
	f.Add("105893427 2105411 351\n")
	f.Add("0 0 0\n")
	f.Add("1 2\n")
	f.Fuzz(func(t *testing.T, text string) {
		if stat, err := parseSchedstat([]byte(text)); err != nil && stat != (Schedstat{}) {
			t.Errorf("both an error and %+v", stat)
		}
	})
}

func TestBetween(t *testing.T) {
	first := map[int]Schedstat{1: {RunNs: 100, WaitNs: 10}, 2: {RunNs: 100, WaitNs: 10}, 5: {Waiting: true}}
	last := map[int]Schedstat{1: {RunNs: 150, WaitNs: 15}, 2: {RunNs: 20, WaitNs: 1}, 3: {RunNs: 7, WaitNs: 3}, 5: {RunNs: 1}}
	for _, test := range []struct {
		tid  int
		born bool
		want Schedstat
		ok   bool
	}{
		{1, false, Schedstat{RunNs: 50, WaitNs: 5}, true},
		{2, false, Schedstat{}, false}, // ran backwards: another thread of that number
		{2, true, Schedstat{RunNs: 20, WaitNs: 1}, true},
		{3, true, Schedstat{RunNs: 7, WaitNs: 3}, true},
		{3, false, Schedstat{}, false}, // not seen at the opening edge
		{4, true, Schedstat{}, false},  // exited
		{5, false, Schedstat{RunNs: 1, Waiting: true}, true},
		{5, true, Schedstat{RunNs: 1}, true},
	} {
		if got, ok := between(test.tid, test.born, first, last); got != test.want || ok != test.ok {
			t.Errorf("between(%d, %v) = %v, %v; want %v, %v", test.tid, test.born, got, ok, test.want, test.ok)
		}
	}
}

func TestSleepUntil(t *testing.T) {
	at := now() + bpf.MonoNs(8*time.Millisecond)
	if err := sleepUntil(context.Background(), at); err != nil || now() < at {
		t.Errorf("woke %d ns early, %v", at-now(), err)
	}
	if err := sleepUntil(context.Background(), 0); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := sleepUntil(ctx, now()+bpf.MonoNs(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled sleep: %v", err)
	}
}

func TestClocks(t *testing.T) {
	if off := time.Since(time.Unix(0, int64(now())+wallAheadNs())); off > time.Second || off < -time.Second {
		t.Errorf("wall time of now is off by %v", off)
	}
	if a, b := suspendedNs(), suspendedNs(); a < -suspendDoubt || b-a > suspendDoubt || a-b > suspendDoubt {
		t.Errorf("suspended for %d and then %d ns", a, b)
	}
}

// BenchmarkEdge tells how late an edge is reached, with and without priority.
// Run it on a host whose CPUs are busy.
func BenchmarkEdge(b *testing.B) {
	for name, raise := range map[string]func() func(){"urgent": urgently, "plain": func() func() { return func() {} }} {
		b.Run(name, func(b *testing.B) {
			var late []float64
			for b.Loop() {
				at := now() + bpf.MonoNs(30*time.Millisecond)
				calm := raise()
				if err := sleepUntil(context.Background(), at); err != nil {
					b.Fatal(err)
				}
				late = append(late, float64(now()-at))
				calm()
			}
			slices.Sort(late)
			b.ReportMetric(late[len(late)/2], "p50-late-ns")
			b.ReportMetric(late[len(late)*9/10], "p90-late-ns")
		})
	}
}
