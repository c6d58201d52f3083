package report

import (
	"testing"

	"github.com/rungprof/rung/attribution"
)

func TestWakerText(t *testing.T) {
	row := func(waker string, thread, outside bool, draws uint64, share float64) attribution.WakerRow {
		return attribution.WakerRow{Waker: waker, Thread: thread, Outside: outside, Draws: draws, Share: share}
	}
	for want, wakers := range map[string][]attribution.WakerRow{
		"woken by loop-* 75.0 %":                              {row("loop-*", true, false, 30, 0.75), row("interrupt", false, false, 9, 0.25)},
		"woken by loop-* 75.0 % (29 drawn)":                   {row("loop-*", true, false, 29, 0.75)},
		"woken by client, which is not the arm's, 100.0 %":    {row("client", true, true, 99, 1)},
		"woken by interrupts 60.0 %":                          {row("interrupt", false, false, 99, 0.6), row("nobody", true, false, 99, 0.4)},
		"woken by interrupt 60.0 %":                           {row("interrupt", true, false, 99, 0.6)}, // a thread of that name
		"woken by the idle CPU 100.0 %":                       {row("idle", false, false, 99, 1)},
		"woken by many others 52.0 %":                         {row("other", false, false, 99, 0.52)},
		"not woken within the window 90.0 % (4 drawn)":        {row("nobody", false, false, 4, 0.9), row("a", true, false, 9, 0.1)},
		"woken by a 30.0 %":                                   {row("nobody", false, false, 4, 0.45), row("a", true, false, 99, 0.3)},
		"waker not known, for no interval was drawn: 100.0 %": {row("not drawn", false, false, 0, 1)},
	} {
		if got := wakerText(wakers); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
