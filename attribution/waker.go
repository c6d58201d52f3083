package attribution

import (
	"cmp"
	"slices"
)

// Waker is blocked time of one thread group and reason that one waker ended, as
// the agent estimated it.
type Waker struct {
	Group          string // of the threads that were woken; see [Waker.Regroup]
	Reason, Object string
	Limited        bool
	// Waker is a thread group, or what stands in its place: "interrupt", "idle",
	// "nobody", "not drawn", "other".
	Waker string
	// Thread: Waker is a thread group; Outside: of a thread that is not the target's.
	Thread, Outside bool
	Comm            string
	Draws           uint64
	Ns              uint64
	// The woken thread, where the row is of a single one, and the one that woke it.
	WokenComm          string
	WokenTid, WakerTid uint32
}

// Regroup puts the woken thread and the waker into the groups that g decides. It
// answers false where the row is of a whole group, which stays as it is.
func (w *Waker) Regroup(g *Grouper) bool {
	if w.WokenTid == 0 {
		return false
	}
	w.Group = g.Group(w.WokenComm, w.WokenTid)
	if w.Thread && w.Comm != "" {
		w.Waker = g.Group(w.Comm, w.WakerTid)
	}
	return true
}

// WakerRow is one waker's part of a reason's blocked time.
type WakerRow struct {
	Waker   string     `json:"waker"`
	Thread  bool       `json:"thread,omitempty"`
	Outside bool       `json:"outside,omitempty"`
	Comm    string     `json:"comm,omitempty"` // of the thread with the most of it
	Draws   uint64     `json:"draws"`
	Time    ThreadTime `json:"time"`
	// Share of the reason's blocked time, 0..1.
	Share float64 `json:"share"`
}

// AddWakers hands each blocked or idle reason of an account its wakers, by
// descending time. r must be the rules that the account was made with: what they
// call idle has wakers of its own.
func (a *Account) AddWakers(wakers []Waker, r *Rules) {
	for i := range a.Groups {
		a.Groups[i].addWakers(wakers, r, a.WindowNs, func(group string) bool { return group == a.Groups[i].Group })
	}
	a.Total.addWakers(wakers, r, a.WindowNs, func(string) bool { return true })
}

func (row *AccountRow) addWakers(wakers []Waker, r *Rules, windowNs int64, of func(group string) bool) {
	type place struct {
		idle bool
		key  waitReason
	}
	found := map[place][]Waker{}
	for _, w := range wakers {
		if !of(w.Group) {
			continue
		}
		idle := false
		if r != nil {
			idle, _ = r.isIdle(w.Group, w.WokenComm, w.Reason)
		}
		at := place{idle, waitReason{w.Reason, w.Object, w.Limited}}
		found[at] = append(found[at], w)
	}
	for idle, rows := range map[bool][]ReasonRow{false: row.Blocked, true: row.IdleReasons} {
		for i := range rows {
			rows[i].Wakers = wakerRows(found[place{idle, rows[i].key()}], rows[i].Time.Ns, windowNs)
		}
	}
}

// wakerRows sums wakers of several thread groups.
func wakerRows(wakers []Waker, total, windowNs int64) []WakerRow {
	type key struct {
		waker           string
		thread, outside bool
	}
	sums := map[key]*WakerRow{}
	most := map[key]uint64{} // time of the group whose comm stands in the row
	for _, w := range wakers {
		k := key{w.Waker, w.Thread, w.Outside}
		s := sums[k]
		if s == nil {
			s = &WakerRow{Waker: w.Waker, Thread: w.Thread, Outside: w.Outside}
			sums[k] = s
		}
		s.Draws += w.Draws
		s.Time.Ns += int64(w.Ns)
		if s.Comm == "" || w.Ns > most[k] || w.Ns == most[k] && w.Comm < s.Comm {
			s.Comm, most[k] = w.Comm, w.Ns
		}
	}
	var rows []WakerRow
	for _, s := range sums {
		s.Time.MeanThreads = float64(s.Time.Ns) / float64(windowNs)
		s.Share = ratio(s.Time.Ns, total)
		rows = append(rows, *s)
	}
	slices.SortFunc(rows, func(x, y WakerRow) int {
		return cmp.Or(cmp.Compare(y.Time.Ns, x.Time.Ns), cmp.Compare(x.Waker, y.Waker), compareBool(x.Thread, y.Thread), compareBool(x.Outside, y.Outside))
	})
	return rows
}

// compareBool puts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
