package attribution

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// TestPresetGoCoversTheArms holds the preset against profiles that the Go
// runtime's own profiler recorded of the arms under load. They have no kernel
// frames, no labels, and names with type arguments.
func TestPresetGoCoversTheArms(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(profilesDir, "recorded-*.pb.gz"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d recorded profiles, want 5: %v", len(files), err)
	}
	for _, file := range files {
		for _, o := range []Options{{Charge: Leaf}, {Charge: Owner}, {Charge: Owner, KernelToOwner: true}} {
			p := readPprof(t, file)
			table, err := Attribute(p, mustPreset(t, "go"), o)
			if err != nil {
				t.Fatal(err)
			}
			checkConservation(t, p, table, o)
			name := filepath.Base(file)
			if other := rowOf(t, table, Other); other.Share.Value >= 0.05 {
				t.Errorf("%s, charge %s: other holds %.1f %%, want below 5: %v", name, o.Charge, 100*other.Share.Value, other.Functions)
			}
			if codec := rowOf(t, table, "codec"); codec.Share.Value < 0.02 {
				t.Errorf("%s, charge %s: codec holds %.1f %%, want some", name, o.Charge, 100*codec.Share.Value)
			}
			if o.Charge == Owner && rowOf(t, table, "runtime").Share.Value > 0.25 {
				t.Errorf("%s: runtime keeps %.1f %% although its callers should own it", name, 100*rowOf(t, table, "runtime").Share.Value)
			}
			if strings.Contains(name, "grpc") && rowOf(t, table, "application").Share.Value > 0.1 {
				t.Errorf("%s: application holds %.1f %% of an echo", name, 100*rowOf(t, table, "application").Share.Value)
			}
		}
	}
}

func readPprof(t testing.TB, file string) *Profile {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	raw, err := profile.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	p, err := FromPprof(raw, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}
