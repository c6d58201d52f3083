package profile

import (
	"strings"

	"github.com/google/pprof/profile"

	"github.com/rungprof/rung/agent/symbol"
)

// table holds the profile's locations, functions and mappings, one of each
// kind. Numbers are given in order of first use.
type table struct {
	locations map[locationKey]*profile.Location
	functions map[functionKey]*profile.Function
	mappings  map[symbol.Mapping]*profile.Mapping

	locationList []*profile.Location
	functionList []*profile.Function
	mappingList  []*profile.Mapping
}

type locationKey struct {
	mapping  symbol.Mapping
	address  uint64
	function string // of the innermost line: the same place may be named or not
}

type functionKey struct {
	name, linkage, file string
	startLine           int
}

func newTable() *table {
	return &table{
		locations: map[locationKey]*profile.Location{},
		functions: map[functionKey]*profile.Function{},
		mappings:  map[symbol.Mapping]*profile.Mapping{},
	}
}

func (t *table) pseudo(file, name string) *profile.Location {
	return t.user(symbol.Location{
		Mapping: symbol.Mapping{File: file},
		Lines:   []symbol.Line{{Function: name}},
	})
}

func (t *table) kernel(name string) *profile.Location { return t.pseudo(KernelMapping, name) }

func (t *table) user(l symbol.Location) *profile.Location {
	key := locationKey{l.Mapping, l.Address, l.Lines[0].Function}
	if loc, ok := t.locations[key]; ok {
		return loc
	}
	m := t.mapping(l.Mapping)
	loc := &profile.Location{
		ID:      uint64(len(t.locationList) + 1),
		Mapping: m,
		Address: l.Address,
		Line:    make([]profile.Line, len(l.Lines)),
	}
	for i, line := range l.Lines {
		loc.Line[i] = profile.Line{Function: t.function(line), Line: int64(line.Line)}
		m.HasFilenames = m.HasFilenames || line.File != ""
		m.HasLineNumbers = m.HasLineNumbers || line.Line != 0
	}
	m.HasInlineFrames = m.HasInlineFrames || len(l.Lines) > 1
	t.locations[key] = loc
	t.locationList = append(t.locationList, loc)
	return loc
}

func (t *table) function(l symbol.Line) *profile.Function {
	if l.Linkage == "" {
		l.Linkage = l.Function
	}
	key := functionKey{l.Function, l.Linkage, l.File, l.StartLine}
	f, ok := t.functions[key]
	if !ok {
		f = &profile.Function{
			ID:   uint64(len(t.functionList) + 1),
			Name: l.Function, SystemName: l.Linkage,
			Filename: l.File, StartLine: int64(l.StartLine),
		}
		t.functions[key] = f
		t.functionList = append(t.functionList, f)
	}
	return f
}

// mapping returns the mapping of a file. Its range is left empty, which tells
// pprof tools that addresses are those within the file: processes that loaded
// one file at several places so share its locations.
func (t *table) mapping(key symbol.Mapping) *profile.Mapping {
	m, ok := t.mappings[key]
	if !ok {
		m = &profile.Mapping{File: key.File, BuildID: key.BuildID, HasFunctions: true}
		t.mappings[key] = m
		t.mappingList = append(t.mappingList, m)
	}
	return m
}

// into puts the tables into p. Files go before other mappings, since pprof
// takes the first mapping for the program.
func (t *table) into(p *profile.Profile) {
	for _, files := range []bool{true, false} {
		for _, m := range t.mappingList {
			if !strings.HasPrefix(m.File, "[") == files {
				p.Mapping = append(p.Mapping, m)
				m.ID = uint64(len(p.Mapping))
			}
		}
	}
	p.Location, p.Function = t.locationList, t.functionList
}
