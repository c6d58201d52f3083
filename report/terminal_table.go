package report

import "strings"

// table writes a table. Where it is too wide, first the gap between columns
// shrinks, then the wrapping columns, and at last the columns that do not fit go
// on in a table below, behind the leading ones again.
func (t *terminal) table(b tableBlock) {
	for _, part := range splitTable(b, t.opt.Width) {
		t.part(part)
	}
}

// grid is a table with its column widths settled.
type grid struct {
	tableBlock
	widths []int
	gap    int
}

func (g *grid) width() int { return sumWidths(g.widths, g.gap) }

func sumWidths(widths []int, gap int) int {
	total := gap * max(0, len(widths)-1)
	for _, w := range widths {
		total += w
	}
	return total
}

// minWrap is the least width of a wrapping column.
const minWrap = 16

// splitTable gives the parts of a table, each at most width columns wide. A cell
// that does not fit even alone is wrapped.
func splitTable(b tableBlock, width int) []grid {
	natural := naturalWidths(b)
	if g, ok := fit(b, natural, width); ok {
		return []grid{g}
	}
	var parts []grid
	for next := b.repeat; next < len(b.columns); {
		keep := make([]int, 0, len(b.columns))
		for i := range b.repeat {
			keep = append(keep, i)
		}
		end := next
		for end < len(b.columns) {
			try := append(append([]int{}, keep...), end)
			if _, ok := fit(pick(b, try), pickInts(natural, try), width); !ok && end > next {
				break
			}
			keep = try
			end++
		}
		g, _ := fit(pick(b, keep), pickInts(natural, keep), width)
		parts = append(parts, g)
		next = end
	}
	return parts
}

// fit settles the widths of b: with the wide gap if the wrapping columns can make
// room for it, else with the narrow one. When neither does, ok is false and the
// widest columns are cut.
func fit(b tableBlock, natural []int, width int) (g grid, ok bool) {
	for _, gap := range []int{2, 1} {
		g = grid{tableBlock: b, widths: append([]int{}, natural...), gap: gap}
		for i, c := range b.columns {
			if over := g.width() - width; over > 0 && c.wrap {
				g.widths[i] = max(min(minWrap, natural[i]), g.widths[i]-over)
			}
		}
		if g.width() <= width {
			return g, true
		}
	}
	for g.width() > width {
		widest := 0
		for i := range g.widths {
			if g.widths[i] > g.widths[widest] {
				widest = i
			}
		}
		if g.widths[widest] <= 1 {
			break
		}
		g.widths[widest] = max(1, g.widths[widest]-(g.width()-width), g.widths[widest]/2)
	}
	return g, false
}

func naturalWidths(b tableBlock) []int {
	widths := make([]int, len(b.columns))
	for i, c := range b.columns {
		for _, h := range c.head {
			widths[i] = max(widths[i], textWidth(sanitise(h)))
		}
		for _, r := range b.rows {
			widths[i] = max(widths[i], textWidth(sanitise(r.cells[i])))
		}
	}
	return widths
}

func pick(b tableBlock, keep []int) tableBlock {
	out := tableBlock{repeat: b.repeat}
	for _, i := range keep {
		out.columns = append(out.columns, b.columns[i])
	}
	for _, r := range b.rows {
		row := tableRow{rule: r.rule, tone: r.tone}
		for _, i := range keep {
			row.cells = append(row.cells, r.cells[i])
		}
		out.rows = append(out.rows, row)
	}
	return out
}

func pickInts(v []int, keep []int) []int {
	out := make([]int, 0, len(keep))
	for _, i := range keep {
		out = append(out, v[i])
	}
	return out
}

func (t *terminal) part(g grid) {
	depth := 0
	for _, c := range g.columns {
		depth = max(depth, len(c.head))
	}
	for line := range depth {
		row := make([]string, len(g.columns))
		for i, c := range g.columns {
			// Short headings stand on the last lines, next to their figures.
			if at := line - (depth - len(c.head)); at >= 0 {
				row[i] = sanitise(c.head[at])
			}
		}
		t.cells(g, row, ansiBold)
	}
	rule := strings.Repeat("─", min(g.width(), t.opt.Width))
	t.line(rule, ansiDim)
	for _, r := range g.rows {
		if r.rule {
			t.line(rule, ansiDim)
		}
		t.row(g, r)
	}
}

// row writes one row, over several lines where a cell is wider than its column.
func (t *terminal) row(g grid, r tableRow) {
	wrapped := make([][]string, len(r.cells))
	height := 1
	for i, c := range r.cells {
		c = sanitise(c)
		if textWidth(c) <= g.widths[i] {
			wrapped[i] = []string{c} // keeps the spaces that align figures inside a cell
		} else {
			wrapped[i] = wrapText(c, g.widths[i])
		}
		height = max(height, len(wrapped[i]))
	}
	ansi := map[tone]string{toneBad: ansiRed, toneDim: ansiDim}[r.tone]
	for line := range height {
		row := make([]string, len(r.cells))
		for i := range r.cells {
			if line < len(wrapped[i]) {
				row[i] = wrapped[i][line]
			}
		}
		t.cells(g, row, ansi)
	}
}

func (t *terminal) cells(g grid, row []string, ansi string) {
	var b strings.Builder
	for i, c := range row {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", g.gap))
		}
		if textWidth(c) > g.widths[i] {
			c = cutAt(c, g.widths[i])
		}
		b.WriteString(pad(c, g.widths[i], g.columns[i].left))
	}
	t.line(b.String(), ansi)
}
