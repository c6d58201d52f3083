package report

// A report is laid out once as blocks; terminal and Markdown each render the
// same blocks, so neither can say what the other does not.

type heading struct {
	level int // 1 is the report's title
	text  string
}

type para struct{ text string }

// bullets is a list of sentences.
type bullets struct{ items []string }

// legend explains the terms of the table above it.
type legend struct{ entries []entry }

type entry struct{ term, meaning string }

// code holds lines to be copied. They are never broken, whatever the width.
type code struct{ lines []string }

type column struct {
	// head is the heading, a line each in a terminal.
	head []string
	// left aligns text to the left; figures stand right.
	left bool
	// wrap lets a terminal break the column's cells over several lines.
	wrap bool
}

type tableBlock struct {
	columns []column
	rows    []tableRow
	// repeat is the number of leading columns that are printed again when the
	// table is wider than the terminal and goes on below itself.
	repeat int
}

type tableRow struct {
	cells []string
	// rule draws a line above the row: it opens a total or another group.
	rule bool
	// tone marks a row that needs the reader's eye.
	tone tone
}

type tone int

const (
	toneNone tone = iota
	toneBad
	toneDim
)

type document struct{ blocks []any }

func (d *document) add(blocks ...any) { d.blocks = append(d.blocks, blocks...) }

// note adds sentences as a list, if there are any.
func (d *document) note(items []string) {
	if len(items) > 0 {
		d.add(bullets{items})
	}
}

// explain adds a legend, if it has entries.
func (d *document) explain(entries []entry) {
	if len(entries) > 0 {
		d.add(legend{entries})
	}
}
