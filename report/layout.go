package report

import (
	"fmt"
	"slices"
	"strings"
)

// layout turns the values into blocks. width is the terminal's, 0 where lines
// have no limit; it decides only how many thread groups have a column of their own.
func layout(r *Report, width int) document {
	var d document
	d.add(heading{1, r.Title})
	d.note(r.Warnings)
	layoutLadders(&d, r)
	if imported(r) {
		return d // no tool's log has more than its steps
	}
	layoutMatched(&d, r)
	layoutAccounts(&d, r, width)
	layoutChecks(&d, r)
	layoutProfiler(&d, r)
	layoutFiles(&d, r)
	return d
}

func imported(r *Report) bool {
	return len(r.Arms) > 0 && !slices.ContainsFunc(r.Arms, func(a Arm) bool { return a.Imported == "" })
}

// layoutFiles says where everything lies and how to open a profile.
func layoutFiles(d *document, r *Report) {
	d.add(heading{2, "Files"})
	d.add(para{"The runs lie in " + r.Dir + ". A profile is one step of one arm, and opens in any pprof tool:"})
	var lines []string
	for i := range r.Arms {
		if top := profileOf(r, &r.Arms[i]); top != "" {
			lines = append(lines, "go tool pprof "+shellQuote(top))
		}
	}
	if len(lines) == 0 {
		d.add(para{"There is no profile: no step has one."})
		return
	}
	d.add(code{lines})
}

// profileOf picks the profile of an arm's matched step, else of its top step,
// else the last there is.
func profileOf(r *Report, a *Arm) string {
	for _, c := range r.Matched.Columns {
		for _, s := range a.Steps {
			if c.Arm == a.Name && c.Step == s.Name && s.Profile != "" {
				return s.Profile
			}
		}
	}
	if top := a.TopStep(); top != nil && top.Profile != "" {
		return top.Profile
	}
	last := ""
	for _, s := range a.Steps {
		if s.Profile != "" {
			last = s.Profile
		}
	}
	return last
}

// shellQuote makes a path one word for a shell.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+=:,@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// stepList names steps in a sentence: all of them up to four, else a count.
func stepList(names []string) string {
	if len(names) > 4 {
		return fmt.Sprintf("%s … %s (%d steps)", names[0], names[len(names)-1], len(names))
	}
	return strings.Join(names, ", ")
}
