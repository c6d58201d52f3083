package suite

import (
	"fmt"
	"math"
	"strings"
)

// Figure is one comparison of the account with what is known to be true.
type Figure struct {
	Name  string  `json:"name"`  // "case: what"
	Value float64 `json:"value"` // the signed error, account less truth; in Unit
	Unit  string  `json:"unit"`
	Goal  string  `json:"goal"` // the range in which Value must lie
	OK    bool    `json:"ok"`
	// Detail is what a reader needs to judge Value: means, counts, repairs.
	Detail  string  `json:"detail"`
	Case    string  `json:"case"`
	What    string  `json:"what"`
	Truth   float64 `json:"truth"` // in Unit
	Account float64 `json:"account"`
	Low     float64 `json:"-"` // Goal, in numbers; may be infinite
	High    float64 `json:"-"`
}

// newFigure judges account - truth against [low, high], all in the same unit.
func newFigure(what, unit string, truth, account, low, high float64, detail string) Figure {
	err := account - truth
	return Figure{
		What: what, Unit: unit, Truth: truth, Account: account, Low: low, High: high, Value: err, Detail: detail,
		Goal: fmt.Sprintf("%s to %s %s", signed(low), signed(high), unit),
		OK:   err >= low && err <= high,
	}
}

// exactly wants two counts to be the same.
func exactly(what, unit string, truth, account int, detail string) Figure {
	return newFigure(what, unit, float64(truth), float64(account), 0, 0, detail)
}

// String is the figure's line: case, what, truth, account, error, bound, ok, detail.
func (f Figure) String() string {
	word := "ok  "
	if !f.OK {
		word = "FAIL"
	}
	line := fmt.Sprintf("%s %-18s %-30s truth %s  account %s  error %s %s  bound %s…%s", word, f.Case, f.What,
		number(f.Truth), number(f.Account), signed(f.Value), f.Unit, signed(f.Low), signed(f.High))
	if f.Detail != "" {
		line += "  (" + f.Detail + ")"
	}
	return line
}

// number prints about six digits without an exponent.
func number(v float64) string {
	digits := 0
	if v != math.Trunc(v) {
		digits = max(0, 5-int(math.Log10(math.Abs(v)+1)))
	}
	s := fmt.Sprintf("%.*f", digits, v)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

func signed(v float64) string {
	if math.IsInf(v, 0) {
		return fmt.Sprint(v) // with its sign
	}
	if s := number(v); v > 0 {
		return "+" + s
	} else {
		return s
	}
}
