package attribution

import (
	"testing"

	"github.com/google/pprof/profile"
)

// TestRegroup: profile, account and wakers of one record agree, whatever groups
// it was made with.
func TestRegroup(t *testing.T) {
	g, err := NewGrouper("io=epoll-[0-9]+")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		g               *Grouper
		woken, by, none string
	}{
		{nil, "epoll-*", "worker-*", "old"},
		{g, "io", "worker-*", "old"},
		{SingleThreads(), "epoll-1 (11)", "worker-2 (22)", "old"},
	} {
		sample := func(thread, group string, tid int64) *profile.Sample {
			s := &profile.Sample{Label: map[string][]string{"thread_group": {group}}, NumLabel: map[string][]int64{"tid": {tid}}}
			if thread != "" {
				s.Label["thread"] = []string{thread}
			}
			return s
		}
		p := &profile.Profile{Sample: []*profile.Sample{sample("epoll-1", "old", 11), sample("worker-2", "old", 22), sample("", "old", 0)}}
		Regroup(p, c.g)
		for i, want := range []string{c.woken, c.by, c.none} {
			if got := firstLabel(p.Sample[i], "thread_group"); got != want {
				t.Errorf("%v: sample %d is of group %q, want %q", c.g.Rules(), i, got, want)
			}
		}
		w := Waker{Group: "old", Waker: "old", Thread: true, Comm: "worker-2", WokenComm: "epoll-1", WokenTid: 11, WakerTid: 22}
		if !w.Regroup(c.g) || w.Group != c.woken || w.Waker != c.by {
			t.Errorf("%v: %q woken by %q, want %q by %q", c.g.Rules(), w.Group, w.Waker, c.woken, c.by)
		}
		if got := c.g.Group("epoll-1", 11); got != c.woken {
			t.Errorf("%v: the account has %q, want %q", c.g.Rules(), got, c.woken)
		}
		whole := Waker{Group: "old", Waker: "old", Thread: true, Comm: "worker-2"}
		if whole.Regroup(c.g) || whole.Group != "old" || whole.Waker != "old" {
			t.Errorf("%v: a row of a whole group became %+v", c.g.Rules(), whole)
		}
		interrupt := Waker{Group: "old", Waker: "interrupt", WokenComm: "epoll-1", WokenTid: 11}
		if !interrupt.Regroup(c.g) || interrupt.Waker != "interrupt" {
			t.Errorf("%v: an interrupt became %+v", c.g.Rules(), interrupt)
		}
	}
}
