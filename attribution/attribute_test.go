package attribution

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
)

// TestConservation: self time over layers and unattributed rows is the total, in
// every unit that the table has, whatever the stacks, charge and total.
func TestConservation(t *testing.T) {
	rules := mustPreset(t, "go")
	rng := rand.New(rand.NewPCG(3, 5))
	for range 300 {
		p := randomProfile(rng)
		o := Options{Requests: uint64(rng.IntN(1000)), Resamples: 20}
		if rng.IntN(2) == 0 {
			o.Charge = Owner
			o.KernelToOwner = rng.IntN(2) == 0
		}
		if rng.IntN(2) == 0 {
			charged, usage := rng.Int64N(1e15), rng.Int64N(1e15)
			o.ChargedNs, o.UsageNs = &charged, &usage
		}
		table, err := Attribute(p, rules, o)
		if err != nil {
			t.Fatal(err)
		}
		checkConservation(t, p, table, o)
	}
}

func checkConservation(t testing.TB, p *Profile, table *Table, o Options) {
	t.Helper()
	var samples, sampled, count, value, ns int64
	for _, s := range p.Stacks {
		count += s.Count
		value += s.Value
	}
	share, ms := 0.0, 0.0
	for _, r := range append(table.Rows[:len(table.Rows):len(table.Rows)], table.Unattributed...) {
		samples += r.Samples
		sampled += r.SampledNs
		ns += r.Ns
		share += r.Share.Value
		if r.MsPerRequest != nil {
			ms += r.MsPerRequest.Value
		}
		if iv := r.Share.Interval; iv != nil && (iv.Lo > r.Share.Value+1e-12 || iv.Hi < r.Share.Value-1e-12 || iv.Lo < 0 || iv.Hi > 1) {
			t.Errorf("layer %s: share %v outside its interval %v", r.Layer, r.Share.Value, *iv)
		}
	}
	if samples != count || table.Samples != count || sampled != value || table.SampledNs != value {
		t.Errorf("rows hold %d samples and %d ns, table %d and %d, profile %d and %d",
			samples, sampled, table.Samples, table.SampledNs, count, value)
	}
	if ns != table.TotalNs {
		t.Errorf("rows hold %d ns of %d", ns, table.TotalNs)
	}
	if value > 0 && math.Abs(share-1) > 1e-9 {
		t.Errorf("shares add up to %v", share)
	}
	if table.MsPerRequest != nil && math.Abs(ms-*table.MsPerRequest) > 1e-9**table.MsPerRequest {
		t.Errorf("rows hold %v ms per request of %v", ms, *table.MsPerRequest)
	}
	if o.ChargedNs != nil && o.UsageNs != nil && *o.ChargedNs+table.Residual.Ns != *o.UsageNs {
		t.Errorf("charged %d and residual %d are not usage %d", *o.ChargedNs, table.Residual.Ns, *o.UsageNs)
	}
}

func randomProfile(rng *rand.Rand) *Profile {
	frames := []Frame{
		{"runtime.memmove", "/srv/arm"}, {"encoding/json.Marshal", "/srv/arm"}, {"net/http.(*conn).serve", "/srv/arm"},
		{"foo.Bar", "/srv/arm"}, {"tcp_sendmsg", MappingKernel}, {"syscall:write", MappingEntry},
		{EntryInterrupt, MappingEntry}, {EntryFault, MappingEntry}, {NoteMissing, MappingNote}, {NoteLost, MappingNote},
		{NoteTruncated, MappingNote}, {"main.main", ""}, {"", ""},
	}
	p := &Profile{Type: "cpu", Unit: "nanoseconds"}
	for range rng.IntN(60) {
		s := Stack{Block: rng.IntN(64), Count: rng.Int64N(50)}
		s.Value = s.Count * 1_001_001
		for range rng.IntN(6) {
			s.Frames = append(s.Frames, frames[rng.IntN(len(frames))])
		}
		p.Stacks = append(p.Stacks, s)
	}
	return p
}

func TestApportion(t *testing.T) {
	for _, c := range []struct {
		total  int64
		values []int64
		want   []int64
	}{
		{10, []int64{1, 1, 1}, []int64{4, 3, 3}},
		{0, []int64{1, 2}, []int64{0, 0}},
		{10, []int64{0, 0}, []int64{0, 0}},
		{-5, []int64{1, 1}, []int64{0, 0}},
		{100, []int64{99, 1, 0}, []int64{99, 1, 0}},
		{math.MaxInt64, []int64{math.MaxInt64 / 2, math.MaxInt64 / 2}, []int64{math.MaxInt64/2 + 1, math.MaxInt64 / 2}},
	} {
		got := Apportion(c.total, c.values)
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("Apportion(%d, %v) = %v, want %v", c.total, c.values, got, c.want)
				break
			}
		}
	}
}

func TestSameInputSameBytes(t *testing.T) {
	p := randomProfile(rand.New(rand.NewPCG(9, 9)))
	var first []byte
	for i := range 5 {
		table, err := Attribute(p, mustPreset(t, "go"), Options{Requests: 100})
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(table)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = data
		} else if string(data) != string(first) {
			t.Fatalf("run %d differs:\n%s\n%s", i, first, data)
		}
	}
}

func TestAttributeRefuses(t *testing.T) {
	minus, one := int64(-1), int64(1)
	for name, c := range map[string]struct {
		profile Profile
		options Options
	}{
		"negative value":     {Profile{Stacks: []Stack{{Value: -1, Block: NoBlock}}}, Options{}},
		"overflow":           {Profile{Stacks: []Stack{{Value: math.MaxInt64, Block: NoBlock}, {Value: 1, Block: NoBlock}}}, Options{}},
		"block out of range": {Profile{Stacks: []Stack{{Value: 1, Block: MaxBlocks}}}, Options{}},
		"unknown charge":     {Profile{}, Options{Charge: "root"}},
		"negative charged":   {Profile{}, Options{ChargedNs: &minus}},
		"charged of bytes":   {Profile{Unit: "bytes"}, Options{ChargedNs: &one}},
		"blocks":             {Profile{}, Options{Blocks: -1}},
		"resamples":          {Profile{}, Options{Resamples: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			if table, err := Attribute(&c.profile, mustPreset(t, "go"), c.options); err == nil {
				t.Errorf("got a table of %d samples, want an error", table.Samples)
			}
		})
	}
}

// TestNoSamples: charged time without a sample is not handed to any layer.
func TestNoSamples(t *testing.T) {
	charged := int64(1e9)
	table, err := Attribute(&Profile{Unit: "nanoseconds"}, mustPreset(t, "go"), Options{ChargedNs: &charged, UsageNs: &charged})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table.Rows {
		if r.Ns != 0 {
			t.Errorf("layer %s got %d ns of nothing", r.Layer, r.Ns)
		}
	}
	if len(table.Warnings) == 0 {
		t.Error("no warning")
	}
}
