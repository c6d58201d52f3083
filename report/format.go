package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// absent is printed for a figure that was not measured; its reason stands in a
// note below the table.
const absent = "–"

// number prints v with the given decimals, a true minus sign, and no "−0.00".
func number(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return absent
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if rest, negative := strings.CutPrefix(s, "-"); negative {
		if strings.Trim(rest, "0.") == "" {
			return rest
		}
		return "−" + rest
	}
	return s
}

// rate prints requests per second: one decimal below 10,000.
func rate(hz float64) string {
	if hz >= 9999.95 || hz == math.Trunc(hz) {
		return number(hz, 0)
	}
	return number(hz, 1)
}

// offered prints a planned rate without rounding it away: 1200, 12.5.
func offered(hz float64) string { return strconv.FormatFloat(hz, 'f', -1, 64) }

// millis prints a latency in milliseconds with about three digits.
func millis(ms float64) string { return number(ms, digitsFor(ms, 3)) }

// perRequest prints milliseconds per request.
func perRequest(ms float64) string { return number(ms, digitsFor(ms, 3)) }

// digitsFor gives the decimals that leave v about n significant digits, at most
// four decimals.
func digitsFor(v float64, n int) int {
	v = math.Abs(v)
	decimals := n - 1
	for limit := 10.0; v >= limit && decimals > 0; limit *= 10 {
		decimals--
	}
	for limit := 1.0; v < limit && v > 0 && decimals < 4; limit /= 10 {
		decimals++
	}
	return decimals
}

func megabytes(b uint64) string {
	mb := float64(b) / 1e6
	if mb < 99.95 {
		return number(mb, 1)
	}
	return number(mb, 0)
}

func pointer[T any](v *T, print func(T) string) string {
	if v == nil {
		return absent
	}
	return print(*v)
}

func fixed(decimals int) func(float64) string {
	return func(v float64) string { return number(v, decimals) }
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// sanitise takes out what could steer a terminal: names of threads, functions
// and errors come from the processes under test.
func sanitise(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			return '?'
		case r == 0x200b || r >= 0x200e && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff || r == 0xfffd:
			return '?' // invisible, or changes the direction of text
		}
		return r
	}, s)
}
