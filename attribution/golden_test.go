package attribution

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

var update = flag.Bool("update", false, "rewrite golden files")

const profilesDir = "../testdata/profiles"

// TestGolden renders each profile by each charge. A golden file's name is its
// input's and the charge.
func TestGolden(t *testing.T) {
	for _, input := range []string{"hand-rest-h1.txt", "folded-perf.folded"} {
		for name, o := range map[string]Options{
			"leaf":         {Charge: Leaf},
			"owner":        {Charge: Owner},
			"owner-kernel": {Charge: Owner, KernelToOwner: true},
		} {
			t.Run(input+"/"+name, func(t *testing.T) {
				p := readGoldenInput(t, input)
				if p.Unit == "nanoseconds" {
					charged, usage := int64(80e6), int64(81e6)
					o.ChargedNs, o.UsageNs, o.Requests, o.Blocks = &charged, &usage, 400, 64
				}
				table, err := Attribute(p, mustPreset(t, "go"), o)
				if err != nil {
					t.Fatal(err)
				}
				checkConservation(t, p, table, o)
				base := strings.TrimSuffix(input, filepath.Ext(input))
				golden(t, base+"."+name+".golden", renderTable(table))
			})
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join(profilesDir, name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); go test -update rewrites it:\n%s", name, diff)
	}
}

// renderTable prints every figure of a table, plainly.
func renderTable(t *Table) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %d %s, sampled %d in %d samples\n", t.Title(), t.TotalNs, t.Unit, t.SampledNs, t.Samples)
	rows := append(t.Rows[:len(t.Rows):len(t.Rows)], t.Unattributed...)
	for _, r := range rows {
		fmt.Fprintf(&b, "%-16s %3d samples %9d %6.2f %%", r.Layer, r.Samples, r.Ns, 100*r.Share.Value)
		if iv := r.Share.Interval; iv != nil {
			fmt.Fprintf(&b, " [%.2f, %.2f]", 100*iv.Lo, 100*iv.Hi)
		}
		if ms := r.MsPerRequest; ms != nil {
			fmt.Fprintf(&b, "  %.4f ms/req [%.4f, %.4f]", ms.Value, ms.Interval.Lo, ms.Interval.Hi)
		}
		fmt.Fprintf(&b, "  %s\n", r.TooFew)
		for _, f := range r.Functions {
			fmt.Fprintf(&b, "    %3d %9d %s\n", f.Samples, f.Ns, f.Name)
		}
	}
	if r := t.Residual; r != nil {
		fmt.Fprintf(&b, "residual %d of %d, %.4f ms/req\n", r.Ns, r.UsageNs, *r.MsPerRequest)
	}
	for _, w := range t.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.Bytes()
}

func readGoldenInput(t *testing.T, name string) *Profile {
	t.Helper()
	f, err := os.Open(filepath.Join(profilesDir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if strings.HasSuffix(name, ".folded") {
		p, err := ParseFolded(f)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	raw, err := readHand(f)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	// Through the wire form, as a reader of files sees it.
	var b bytes.Buffer
	if err := raw.Write(&b); err != nil {
		t.Fatal(err)
	}
	if raw, err = profile.Parse(&b); err != nil {
		t.Fatal(err)
	}
	p, err := FromPprof(raw, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const handPeriodNs = 1_001_001

// readHand makes a pprof of the text form that hand-rest-h1.txt explains.
func readHand(r io.Reader) (*profile.Profile, error) {
	h := handProfile{
		Profile: &profile.Profile{
			SampleType:        []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
			DefaultSampleType: "cpu",
			PeriodType:        &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
			Period:            handPeriodNs,
		},
		mappings: map[string]*profile.Mapping{}, functions: map[string]*profile.Function{},
	}
	sc := bufio.NewScanner(r)
	for line := 1; sc.Scan(); line++ {
		if strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		if err := h.add(sc.Text()); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	return h.Profile, sc.Err()
}

type handProfile struct {
	*profile.Profile
	mappings  map[string]*profile.Mapping
	functions map[string]*profile.Function
}

func (h *handProfile) add(line string) error {
	head, stack, ok := strings.Cut(line, " : ")
	if !ok {
		return fmt.Errorf("no colon")
	}
	fields := strings.Fields(head)
	count, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return err
	}
	s := &profile.Sample{
		Value: []int64{count, count * handPeriodNs},
		Label: map[string][]string{"state": {"on-cpu"}}, NumLabel: map[string][]int64{},
	}
	for _, kv := range fields[1:] {
		key, value, _ := strings.Cut(kv, "=")
		switch key {
		case "block":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return err
			}
			s.NumLabel["block"] = []int64{n}
		case "group":
			s.Label["thread_group"] = []string{value}
		default:
			return fmt.Errorf("unknown key %q", key)
		}
	}
	for _, name := range strings.Split(stack, "; ") {
		inlined := strings.HasPrefix(name, "+")
		fn, mapping := h.frame(strings.TrimPrefix(name, "+"))
		if inlined {
			loc := s.Location[0]
			loc.Line = append([]profile.Line{{Function: fn}}, loc.Line...)
			continue
		}
		loc := &profile.Location{ID: uint64(len(h.Location) + 1), Mapping: mapping, Line: []profile.Line{{Function: fn}}}
		h.Location = append(h.Location, loc)
		s.Location = append([]*profile.Location{loc}, s.Location...)
	}
	h.Sample = append(h.Sample, s)
	return nil
}

func (h *handProfile) frame(name string) (*profile.Function, *profile.Mapping) {
	file := "/srv/arm"
	for mark, m := range map[string]string{"k@": MappingKernel, "e@": MappingEntry, "n@": MappingNote} {
		if rest, ok := strings.CutPrefix(name, mark); ok {
			name, file = rest, m
		}
	}
	m := h.mappings[file]
	if m == nil {
		m = &profile.Mapping{ID: uint64(len(h.Mapping) + 1), File: file, HasFunctions: true}
		h.mappings[file] = m
		h.Mapping = append(h.Mapping, m)
	}
	fn := h.functions[name]
	if fn == nil {
		fn = &profile.Function{ID: uint64(len(h.Function) + 1), Name: name, SystemName: name}
		h.functions[name] = fn
		h.Function = append(h.Function, fn)
	}
	return fn, m
}
