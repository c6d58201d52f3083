package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungprof/rung/attribution"
)

// layoutMatched adds the one table that compares the arms by layer.
func layoutMatched(d *document, r *Report) {
	m := &r.Matched
	if m.RateHz == nil || len(m.Columns) == 0 {
		d.add(heading{2, "On-CPU by layer"})
		reason := m.Reason
		if reason == "" {
			reason = "no arm has a profile at it"
		}
		d.add(para{"No comparison at a matched rate: " + reason + "."})
		excludedNotes(d, m)
		return
	}
	first := &m.Columns[0].Table
	at := "at the matched rate of " + offered(*m.RateHz) + "/s"
	if len(r.Arms) == 1 {
		at = "at " + offered(*m.RateHz) + "/s offered"
	}
	d.add(heading{2, capital(first.Title()) + ", " + at})
	d.add(matchedTable(m))
	excludedNotes(d, m)
	notes := slices.Clone(m.Warnings)
	for _, c := range m.Columns {
		for _, w := range c.Table.Warnings {
			notes = append(notes, c.Arm+": "+w)
		}
	}
	notes = append(notes, otherNotes(m)...)
	d.note(notes)
	d.explain(matchedLegend(r))
}

func excludedNotes(d *document, m *Matched) {
	var notes []string
	for _, e := range m.Excluded {
		notes = append(notes, e.Arm+" has no column: "+e.Reason)
	}
	d.note(notes)
}

// layerRow is one row of the comparison before it is printed.
type layerRow struct {
	label string
	rule  bool
	// cell is nil where an arm's table has no such row: nothing fell there.
	cell func(*attribution.Table) *layerCell
}

// layerCell is "28.1 ±2.3 · 0.0450": share of the total, half the interval's
// width, milliseconds per request.
type layerCell struct {
	share    float64 // 1 is the total
	interval *attribution.Interval
	tooFew   bool
	ms       *float64
	missing  bool
}

func matchedTable(m *Matched) tableBlock {
	var rows []layerRow
	for _, layer := range rowNames(m, func(t *attribution.Table) []attribution.Row { return t.Rows }) {
		rows = append(rows, layerRow{layer, false, func(t *attribution.Table) *layerCell { return cellOf(t.Rows, layer) }})
	}
	for _, kind := range rowNames(m, func(t *attribution.Table) []attribution.Row { return t.Unattributed }) {
		rows = append(rows, layerRow{kind, false, func(t *attribution.Table) *layerCell { return cellOf(t.Unattributed, kind) }})
	}
	rows = append(rows,
		layerRow{totalName(m), true, func(t *attribution.Table) *layerCell {
			return &layerCell{share: 1, ms: t.MsPerRequest}
		}},
		layerRow{"usage_usec − Σ", false, func(t *attribution.Table) *layerCell {
			if t.Residual == nil {
				return &layerCell{missing: true}
			}
			return &layerCell{share: t.Residual.Share, ms: t.Residual.MsPerRequest}
		}})

	block := tableBlock{repeat: 1, columns: []column{{head: []string{"layer"}, left: true}}}
	for _, r := range rows {
		block.rows = append(block.rows, tableRow{cells: []string{r.label}, rule: r.rule})
	}
	decimals := matchedDecimals(m)
	for i := range m.Columns {
		block.columns = append(block.columns, column{head: []string{m.Columns[i].Arm, "% ± 95 % · ms/req"}})
		for j, cell := range layerColumn(rows, &m.Columns[i].Table, decimals) {
			block.rows[j].cells = append(block.rows[j].cells, cell)
		}
	}
	return block
}

// layerColumn prints one arm's cells, padded so that their parts stand below
// each other.
func layerColumn(rows []layerRow, t *attribution.Table, decimals int) []string {
	ms := make([]string, len(rows))
	width := 0
	for i, r := range rows {
		zero := 0.0
		c := r.cell(t)
		if c == nil {
			c = &layerCell{ms: &zero}
		}
		ms[i] = pointer(c.ms, fixed(decimals))
		width = max(width, textWidth(ms[i]))
	}
	cells := make([]string, len(rows))
	for i, r := range rows {
		c := r.cell(t)
		if c == nil {
			c = &layerCell{}
		}
		if c.missing {
			cells[i] = absent
			continue
		}
		share := number(100*c.share, 1)
		if c.share == 1 {
			share = "100"
		}
		cells[i] = pad(share, 4, false) + " " + pad(c.plusMinus(), 4, true) + " · " + pad(ms[i], width, false)
	}
	return cells
}

func (c *layerCell) plusMinus() string {
	switch {
	case c.tooFew:
		return "±?"
	case c.interval == nil:
		return ""
	}
	if half := 100 * c.interval.HalfWidth(); half < 9.95 {
		return "±" + number(half, 1)
	} else {
		return "±" + number(half, 0)
	}
}

// cellOf finds a layer's cell, nil where the table has no such row.
func cellOf(rows []attribution.Row, layer string) *layerCell {
	for _, r := range rows {
		if r.Layer != layer {
			continue
		}
		c := &layerCell{share: r.Share.Value, interval: r.Share.Interval, tooFew: r.TooFew != ""}
		if r.MsPerRequest != nil {
			c.ms = &r.MsPerRequest.Value
		}
		return c
	}
	return nil
}

// rowNames is the union of the tables' rows, in the order they first appear.
func rowNames(m *Matched, rows func(*attribution.Table) []attribution.Row) []string {
	var names []string
	seen := map[string]bool{}
	for i := range m.Columns {
		for _, r := range rows(&m.Columns[i].Table) {
			if !seen[r.Layer] {
				seen[r.Layer] = true
				names = append(names, r.Layer)
			}
		}
	}
	return names
}

func totalName(m *Matched) string {
	for i := range m.Columns {
		if !m.Columns[i].Table.TotalFromAccount {
			return "Σ sampled"
		}
	}
	return "Σ charged"
}

// matchedDecimals is one number of decimals for the whole table, so that its
// columns can be added up: three below 100 ms per request, four below 1.
func matchedDecimals(m *Matched) int {
	top := 0.0
	for i := range m.Columns {
		if ms := m.Columns[i].Table.MsPerRequest; ms != nil {
			top = max(top, *ms)
		}
	}
	switch {
	case top < 1:
		return 4
	case top < 100:
		return 3
	}
	return 1
}

// muchOther is the share of `other` above which its functions are named: the
// rules do not know the code.
const muchOther = 0.05

// otherNotes names the functions that no rule knows, where they weigh.
func otherNotes(m *Matched) []string {
	var notes []string
	for _, c := range m.Columns {
		for _, r := range c.Table.Rows {
			if r.Layer != attribution.Other || r.Share.Value <= muchOther || len(r.Functions) == 0 {
				continue
			}
			var top []string
			for _, f := range r.Functions[:min(3, len(r.Functions))] {
				top = append(top, fmt.Sprintf("%s %s %%", f.Name, percent(f.Share)))
			}
			notes = append(notes, fmt.Sprintf("%s: no rule knows %s %% of its CPU, most of it in %s", c.Arm, percent(r.Share.Value), strings.Join(top, ", ")))
		}
	}
	return notes
}

func matchedLegend(r *Report) []entry {
	m := &r.Matched
	var entries []entry
	about := map[string]string{}
	for i := range m.Columns {
		for _, row := range m.Columns[i].Table.Rows {
			if row.About != "" && about[row.Layer] == "" {
				about[row.Layer] = row.About
				entries = append(entries, entry{row.Layer, row.About})
			}
		}
	}
	tooFew := ""
	for i := range m.Columns {
		for _, row := range m.Columns[i].Table.Rows {
			if tooFew == "" {
				tooFew = row.TooFew
			}
		}
	}
	entries = append(entries, entry{"% ± 95 % · ms/req", "share of Σ in percent ± half the width of its 95 % interval (block bootstrap) · milliseconds per request (÷ deliveredInWindow)"})
	if tooFew != "" {
		entries = append(entries, entry{"±?", "no interval to rely on; the first reason: " + tooFew})
	}
	if r.Rules != "" {
		entries = append(entries, entry{"layers", "as " + r.Rules + " names them"})
	}
	sigma := entry{"Σ charged", "on-CPU time that the kernel charged to the arm's threads; samples say only how it divides"}
	if totalName(m) == "Σ sampled" {
		sigma = entry{"Σ sampled", "samples × period: at least one arm has no account of its threads to divide"}
	}
	return append(entries, sigma,
		entry{"usage_usec − Σ", "charged to the cgroup and not to a thread of the account, in percent of usage_usec; signed, spread over no layer"})
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
