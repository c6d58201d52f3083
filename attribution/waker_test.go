package attribution

import "testing"

func TestAddWakers(t *testing.T) {
	rules := mustPreset(t, "go")
	threads := loopThreads()
	a, err := NewAccount(threads, testWindow, rules)
	if err != nil {
		t.Fatal(err)
	}
	a.AddWakers([]Waker{
		{Group: "worker-*", Reason: "futex", Waker: "loop-*", Thread: true, Comm: "loop-0", Draws: 40, Ns: 6e8},
		{Group: "worker-*", Reason: "futex", Waker: "interrupt", Draws: 3, Ns: 2e8},
		{Group: "rung", Reason: "futex", Waker: "rung", Thread: true, Comm: "rung", Draws: 9, Ns: 5e8},
		{Group: "worker-*", Reason: "read", Waker: "downstream", Thread: true, Outside: true, Draws: 2, Ns: 1e8},
		{Group: "worker-*", Reason: "read", Object: "pipe", Waker: "nobody", Ns: 7}, // no such row
		{Group: "gone", Reason: "futex", Waker: "idle", Ns: 7},                      // idle by preset go: in the total's idle row
	}, rules)
	workers := a.Groups[0].Blocked
	if w := workers[0].Wakers; len(w) != 2 || w[0] != (WakerRow{"loop-*", true, false, "loop-0", 40, ThreadTime{6e8, 0.6}, 0.75}) || w[1].Waker != "interrupt" || w[1].Share != 0.25 {
		t.Errorf("wakers of worker-* in futex: %+v", w)
	}
	if w := workers[1].Wakers; len(w) != 1 || !w[0].Outside || w[0].Share != 1 {
		t.Errorf("wakers of worker-* in read: %+v", w)
	}
	// What is blocked and what is idle in one reason keep their own wakers.
	for _, row := range a.Total.Blocked {
		if row.Reason == "futex" && (len(row.Wakers) != 2 || row.Wakers[0].Waker != "loop-*") {
			t.Errorf("wakers of all in futex: %+v", row.Wakers)
		}
	}
	for _, row := range a.Total.IdleReasons {
		if row.Reason == "futex" && (len(row.Wakers) != 2 || row.Wakers[0].Waker != "rung") {
			t.Errorf("wakers of idle futex: %+v", row.Wakers)
		}
	}
	a.AddWakers(nil, nil)
	if a.Total.Blocked[0].Wakers != nil {
		t.Error("wakers without wakers")
	}
}

func TestWakersOfSeveralGroups(t *testing.T) {
	rows := wakerRows([]Waker{
		{Group: "a", Waker: "x", Thread: true, Comm: "x-1", Draws: 1, Ns: 10},
		{Group: "b", Waker: "x", Thread: true, Comm: "x-2", Draws: 2, Ns: 30},
		{Group: "b", Waker: "x", Thread: true, Outside: true, Comm: "x-9", Draws: 1, Ns: 40},
	}, 80, 100)
	if len(rows) != 2 || rows[0].Comm != "x-2" || rows[0].Time.Ns != 40 || rows[0].Draws != 3 || !rows[1].Outside || rows[1].Time.MeanThreads != 0.4 {
		t.Errorf("%+v", rows)
	}
}
