package attribution

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

// foreign is a profile of another tool: no labels, other sample types, kernel
// frames without entries, a location without lines.
func foreign() *profile.Profile {
	user := &profile.Mapping{ID: 1, Start: 0x1000, Limit: 0x9000, Offset: 0x100, File: "/usr/bin/x"}
	kernel := &profile.Mapping{ID: 2, File: "[kernel.kallsyms]_text"}
	main := &profile.Function{ID: 1, Name: "main.main"}
	read := &profile.Function{ID: 2, Name: "__arm64_sys_read"}
	vfs := &profile.Function{ID: 3, Name: "vfs_read"}
	noName := &profile.Function{ID: 4}
	locs := []*profile.Location{
		{ID: 1, Mapping: kernel, Line: []profile.Line{{Function: vfs}}},
		{ID: 2, Mapping: kernel, Line: []profile.Line{{Function: read}}},
		{ID: 3, Mapping: user, Address: 0x1010, Line: []profile.Line{{Function: main}}},
		{ID: 4, Mapping: user, Address: 0x1234},
		{ID: 5, Address: 0x42, Line: []profile.Line{{Function: noName}}},
	}
	return &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"}},
		Mapping:    []*profile.Mapping{user, kernel}, Function: []*profile.Function{main, read, vfs, noName}, Location: locs,
		Sample: []*profile.Sample{
			{Value: []int64{1, 100}, Location: []*profile.Location{locs[0], locs[1], locs[2]}},
			{Value: []int64{2, 200}, Location: []*profile.Location{locs[3], locs[2]}},
			{Value: []int64{0, 0}, Location: []*profile.Location{locs[2]}},
			{Value: []int64{3, 300}, Location: []*profile.Location{locs[4]}},
			{Value: []int64{4, 400}},
		},
	}
}

func TestForeignPprof(t *testing.T) {
	p, err := FromPprof(foreign(), "")
	if err != nil {
		t.Fatal(err)
	}
	if p.Type != "alloc_space" || p.Unit != "bytes" || len(p.Stacks) != 4 || len(p.Warnings) != 2 {
		t.Errorf("type %s in %s, %d stacks, warnings %q", p.Type, p.Unit, len(p.Stacks), p.Warnings)
	}
	want := [][]string{
		{"vfs_read", "__arm64_sys_read", "syscall:read", "main.main"},
		{"[unknown] /usr/bin/x+0x334", "main.main"},
		{"[unknown] +0x42"},
		{},
	}
	for i, s := range p.Stacks {
		var got []string
		for _, f := range s.Frames {
			got = append(got, f.Function)
		}
		if !slices.Equal(got, want[i]) || s.Block != NoBlock || s.Count != 1 {
			t.Errorf("stack %d: %q, block %d, count %d; want %q", i, got, s.Block, s.Count, want[i])
		}
	}
	table, err := Attribute(p, mustPreset(t, "go"), Options{Requests: 5})
	if err != nil {
		t.Fatal(err)
	}
	if table.MsPerRequest != nil || table.Rows[0].MsPerRequest != nil {
		t.Error("bytes became milliseconds per request")
	}
	if row := rowOf(t, table, "syscalls"); row.SampledNs != 100 {
		t.Errorf("syscalls hold %d bytes, want 100", row.SampledNs)
	}
}

func TestPickSampleType(t *testing.T) {
	types := func(names ...string) *profile.Profile {
		p := &profile.Profile{}
		for _, n := range names {
			typ, unit, _ := strings.Cut(n, "/")
			p.SampleType = append(p.SampleType, &profile.ValueType{Type: typ, Unit: unit})
		}
		return p
	}
	def := types("alloc/bytes", "inuse/bytes", "x/count")
	def.DefaultSampleType = "inuse"
	for name, c := range map[string]struct {
		p              *profile.Profile
		want, wantType string
		err            string
	}{
		"cpu before others": {types("samples/count", "cpu/nanoseconds", "blocked/nanoseconds"), "", "cpu", ""},
		"default":           {def, "", "inuse", ""},
		"last":              {types("a/count", "b/bytes"), "", "b", ""},
		"asked for":         {def, "alloc", "alloc", ""},
		"unknown":           {def, "wall", "", `sample type "wall": unknown; the profile has alloc, inuse, x`},
		"none":              {types(), "", "", "profile has no sample type"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := FromPprof(c.p, c.want)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || p.Type != c.wantType {
				t.Errorf("type %v, error %v; want %s", p, err, c.wantType)
			}
		})
	}
}

// TestBlockZero: pprof's wire form drops a numeric label 0 without a unit.
func TestBlockZero(t *testing.T) {
	raw := foreign()
	raw.Sample[0].NumLabel = map[string][]int64{"block": {0}}
	raw.Sample[1].NumLabel = map[string][]int64{"block": {3}}
	var b bytes.Buffer
	if err := raw.Write(&b); err != nil {
		t.Fatal(err)
	}
	read, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	p, err := FromPprof(read, "")
	if err != nil {
		t.Fatal(err)
	}
	if p.Stacks[0].Block != 0 || p.Stacks[1].Block != 3 {
		t.Errorf("blocks %d and %d, want 0 and 3", p.Stacks[0].Block, p.Stacks[1].Block)
	}
}

func TestPprofRefuses(t *testing.T) {
	noLocation := foreign()
	noLocation.Sample[0].Location = []*profile.Location{nil}
	block := foreign()
	block.Sample[0].NumLabel = map[string][]int64{"block": {MaxBlocks}}
	short := foreign()
	short.Sample[0].Value = []int64{1}
	for name, p := range map[string]*profile.Profile{"nil location": noLocation, "block": block, "too few values": short} {
		if _, err := FromPprof(p, ""); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestEntryOf(t *testing.T) {
	for _, c := range []struct {
		kernel []string
		want   string
		at     int
	}{
		{[]string{"tcp_sendmsg", "__x64_sys_sendto", "do_syscall_64"}, "syscall:sendto", 2},
		{[]string{"tcp_v4_rcv", "__do_softirq", "do_softirq.part.0", "tcp_sendmsg", "__x64_sys_sendto"}, EntryInterrupt, 2},
		{[]string{"tcp_v4_rcv+0x10", "handle_softirqs+0xf0"}, EntryInterrupt, 2},
		{[]string{"hrtimer_interrupt", "asm_sysvec_apic_timer_interrupt"}, EntryInterrupt, 2},
		{[]string{"clear_page", "asm_exc_page_fault", "copy_from_user", "ksys_write"}, EntryFault, 2},
		{[]string{"x", "do_mem_abort"}, EntryFault, 2},
		{[]string{"ret_from_fork"}, EntryKernel, 1},
	} {
		var frames []Frame
		for _, name := range c.kernel {
			frames = append(frames, Frame{name, MappingKernel})
		}
		if entry, at := entryOf(frames); entry != c.want || at != c.at {
			t.Errorf("%q: %s behind %d frames, want %s behind %d", c.kernel, entry, at, c.want, c.at)
		}
	}
}

// FuzzPprof: any bytes are an error or a profile whose table conserves it.
func FuzzPprof(f *testing.F) {
	var b bytes.Buffer
	if err := foreign().WriteUncompressed(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	data, err := os.ReadFile(filepath.Join(profilesDir, "recorded-rest-h1.pb.gz"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	rules := mustPreset(f, "go")
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, err := profile.ParseData(data)
		if err != nil {
			return
		}
		p, err := FromPprof(raw, "")
		if (err == nil) == (p == nil) {
			t.Fatalf("profile %v, error %v", p, err)
		}
		if err != nil {
			return
		}
		o := Options{Resamples: 10, Charge: Owner}
		table, err := Attribute(p, rules, o)
		if (err == nil) == (table == nil) {
			t.Fatalf("table %v, error %v", table, err)
		}
		if err == nil {
			checkConservation(t, p, table, o)
		}
	})
}

// TestOffCPUSamplesStandAside: off-CPU samples beside on-CPU ones change nothing
// of the on-CPU table, its bootstrap included.
func TestOffCPUSamplesStandAside(t *testing.T) {
	f := &profile.Function{ID: 1, Name: "encoding/json.Marshal"}
	m := &profile.Mapping{ID: 1, File: "/app"}
	loc := &profile.Location{ID: 1, Mapping: m, Line: []profile.Line{{Function: f}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}, {Type: "blocked", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10,
		Mapping: []*profile.Mapping{m}, Function: []*profile.Function{f}, Location: []*profile.Location{loc},
	}
	for block := range int64(50) {
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{loc}, Value: []int64{block, 10 * block, 0},
			NumLabel: map[string][]int64{"block": {block}}})
	}
	table := func() *Table {
		in, err := FromPprof(p, "")
		if err != nil {
			t.Fatal(err)
		}
		table, err := Attribute(in, mustPreset(t, "go"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	before := table()
	for i := range int64(9) {
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{loc}, Value: []int64{0, 0, 1000 + i},
			Label: map[string][]string{"state": {"blocked"}}, NumLabel: map[string][]int64{"draws": {3}}, NumUnit: map[string][]string{"draws": {"count"}}})
	}
	if diff := cmp.Diff(before, table()); diff != "" || before.Bootstrap.TooFew != "" {
		t.Errorf("off-CPU samples changed the table (%s):\n%s", before.Bootstrap.TooFew, diff)
	}
	off, err := FromPprof(p, "blocked")
	if err != nil {
		t.Fatal(err)
	}
	if len(off.Stacks) != 9 || off.Stacks[0].Count != 3 || off.Stacks[0].Block != NoBlock {
		t.Errorf("%d stacks, first %+v", len(off.Stacks), off.Stacks[0])
	}
}
