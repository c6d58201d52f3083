package symbol

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ianlancetaylor/demangle"
)

// maxShown bounds each string of a Line in bytes; longer ones are cut.
const maxShown = 1024

// clip cuts s to n bytes, at a rune's start.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// goLine makes the line of a Go function. Type arguments, which pclntab spells
// as garbage-collection shapes, become [...] as the runtime prints them.
func goLine(linkage, file string, line, startLine int) Line {
	linkage = Printable(linkage)
	return Line{
		Function: clip(shortenTypeArgs(linkage), maxShown), Linkage: clip(linkage, maxShown),
		File: clip(Printable(file), maxShown), Line: line, StartLine: max(startLine, 0),
	}
}

func shortenTypeArgs(name string) string {
	i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if i < 0 || j <= i {
		return name
	}
	return name[:i] + "[...]" + name[j+1:]
}

// elfLine makes the line of an ELF symbol.
func elfLine(linkage string) Line {
	return Line{
		Function: clip(Printable(demangled(linkage)), maxShown),
		Linkage:  clip(Printable(linkage), maxShown),
	}
}

// Demangled names are without parameters and template arguments, as pprof
// shows them; Line.Linkage keeps the whole. 2^12 bytes bound the output, which
// back references make exponential in the input.
var demangleOptions = []demangle.Option{
	demangle.NoParams, demangle.NoEnclosingParams, demangle.NoTemplateParams,
	demangle.MaxLength(12),
}

func demangled(linkage string) (name string) {
	if !strings.HasPrefix(linkage, "_Z") && !strings.HasPrefix(linkage, "_R") && !strings.HasPrefix(linkage, "___Z") {
		return linkage
	}
	// The demangler reads names made by the target. It returns errors, but is
	// not ours to vouch for.
	defer func() {
		if recover() != nil {
			name = linkage
		}
	}()
	return demangle.Filter(linkage, demangleOptions...)
}

// Printable replaces what could act on a terminal or break a protobuf string:
// control characters and invalid UTF-8.
func Printable(s string) string {
	clean := true
	for i := 0; i < len(s) && clean; i++ {
		clean = s[i] >= ' ' && s[i] < utf8.RuneSelf-1
	}
	if clean {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
