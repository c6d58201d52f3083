package report

import (
	"fmt"
	"slices"

	"github.com/rungprof/rung/attribution"
)

// fewDraws is the number of drawn intervals below which they are named beside a
// waker's share: the share is then a guess.
const fewDraws = 30

// wakerNotes says of each blocked row who ended most of its time.
func wakerNotes(a *attribution.Account) []string {
	var notes []string
	for i := range a.Total.Blocked {
		row := &a.Total.Blocked[i]
		if len(row.Wakers) == 0 || row.Time.MeanThreads < shownThreads {
			continue
		}
		notes = append(notes, row.Name()+": "+wakerText(row.Wakers))
	}
	return notes
}

// wakerText is "woken by loop-* 75.0 %", of the waker with the most time. Only
// where nobody woke more than half of it, that stands in its place.
func wakerText(wakers []attribution.WakerRow) string {
	main := wakers[0]
	woken := slices.IndexFunc(wakers, func(w attribution.WakerRow) bool { return w.Thread || w.Waker != "nobody" && w.Waker != "not drawn" })
	if woken >= 0 && main.Share <= 0.5 {
		main = wakers[woken]
	}
	text := ""
	switch {
	case main.Thread && main.Outside:
		text = "woken by " + main.Waker + ", which is not the arm's,"
	case main.Thread:
		text = "woken by " + main.Waker
	case main.Waker == "interrupt":
		text = "woken by interrupts"
	case main.Waker == "idle":
		text = "woken by the idle CPU"
	case main.Waker == "nobody":
		text = "not woken within the window"
	case main.Waker == "not drawn":
		text = "waker not known, for no interval was drawn:"
	default:
		text = "woken by many others"
	}
	text += fmt.Sprintf(" %s %%", number(100*main.Share, 1))
	if main.Draws > 0 && main.Draws < fewDraws {
		text += fmt.Sprintf(" (%d drawn)", main.Draws)
	}
	return text
}
