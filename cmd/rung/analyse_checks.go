//go:build linux

package main

import (
	"fmt"
	"math"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/rundir"
)

// Names of the checks that hold client and agent against each other; those of
// the account are attribution's.
const (
	checkScheduled   = "scheduled − Σ"
	checkSent        = "sent − Σ"
	checkConnections = "connections open"
	checkBracket     = "read bracket, worse edge"
	checkWindow      = "client − agent window"
)

// maxBracketNs is the distance of a counter's reading from its edge above which
// a step is flagged.
const maxBracketNs = 20e6

// loadChecks are the identities of the load, which must hold to the request.
func loadChecks(c *rundir.ClientStep) []attribution.Check {
	scheduled, sent := c.Unbalanced()
	return []attribution.Check{
		analyseCheck(checkScheduled, "requests", float64(scheduled), 0, 0,
			fmt.Sprintf("scheduled %d, sent %d + overflow %d + deferred %d + late_dropped %d + not_connected %d",
				c.Scheduled, c.Sent, c.Overflow, c.DeferredTotal(), c.LateDropped, c.NotConnected)),
		analyseCheck(checkSent, "requests", float64(sent), 0, 0,
			fmt.Sprintf("sent %d, delivered %d + errors %d + unanswered %d", c.Sent, c.Delivered, c.ErrorsTotal(), c.Unanswered)),
		analyseCheck(checkConnections, "", float64(c.ConnectionsOpen), float64(c.ConnectionsWanted), 0,
			"the least number open at any moment of the step"),
	}
}

// agentChecks hold the record's window against the client's.
func agentChecks(s rundir.Step) []attribution.Check {
	n, w, c := countersOf(s.Record), s.Record.GetWindow(), s.Client
	bracket := max(n.GetStartBracketNs(), n.GetEndBracketNs())
	checks := []attribution.Check{
		analyseCheck(checkBracket, "ns", float64(bracket), 0, maxBracketNs, ""),
	}
	if w.GetBootId() != c.BootID {
		return append(checks, attribution.Check{Name: checkWindow, Unit: "ns", OK: true,
			Absent: "the driver ran on another host, or before another boot: its stamps cannot be compared"})
	}
	start := float64(c.WindowStartMonoNs) - float64(w.GetStartMonoNs())
	end := float64(c.WindowEndMonoNs) - float64(w.GetEndMonoNs())
	worse := start
	if math.Abs(end) > math.Abs(start) {
		worse = end
	}
	return append(checks, analyseCheck(checkWindow, "ns", worse, 0, float64(windowNs(s.Record))/100,
		fmt.Sprintf("start %+.3f ms, end %+.3f ms", start/1e6, end/1e6)))
}

func analyseCheck(name, unit string, value, want, bound float64, detail string) attribution.Check {
	return attribution.Check{Name: name, Unit: unit, Value: value, Want: want, Bound: &bound, Detail: detail,
		OK: math.Abs(value-want) <= bound}
}
