package gate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Shares are parts of an arm's sampled time, summing to 1, pooled over the
// steps of its ladder, and the samples it rests on.
type Shares struct {
	Layers       map[string]float64
	Unattributed float64 // missing, lost and cut stacks
	Samples      float64
}

// report is the part of `rung demo --json` that is judged here.
type report struct {
	Arms []struct {
		Name  string
		Steps []struct {
			Name   string
			Warmup bool
			Layers *struct {
				SampledNs, Samples float64
				Rows, Unattributed []struct {
					Layer     string
					SampledNs float64
				}
			}
		}
	}
}

// ParseReport reads a demo's report: arm -> shares over all steps but the
// warm-up. An arm with a step that has no layers is an error.
func ParseReport(data []byte) (map[string]Shares, error) {
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("report of the demo: %w", err)
	}
	if len(r.Arms) == 0 {
		return nil, fmt.Errorf("report of the demo: no arm")
	}
	arms := map[string]Shares{}
	for _, arm := range r.Arms {
		s := Shares{Layers: map[string]float64{}}
		var total float64
		for _, step := range arm.Steps {
			if step.Warmup {
				continue
			}
			if step.Layers == nil {
				return nil, fmt.Errorf("report of the demo: %s, step %s has no layers", arm.Name, step.Name)
			}
			s.Samples += step.Layers.Samples
			total += step.Layers.SampledNs
			for _, row := range step.Layers.Rows {
				s.Layers[row.Layer] += row.SampledNs
			}
			for _, row := range step.Layers.Unattributed {
				s.Unattributed += row.SampledNs
			}
		}
		if !(s.Samples >= 1) || !(total > 0) {
			return nil, fmt.Errorf("report of the demo: %s has no sample", arm.Name)
		}
		for layer := range s.Layers {
			s.Layers[layer] /= total
		}
		s.Unattributed /= total
		arms[arm.Name] = s
	}
	return arms, nil
}

// Describe prints an arm a line, its layers with the greatest first.
func Describe(arms map[string]Shares) string {
	var lines []string
	for _, arm := range slices.Sorted(maps.Keys(arms)) {
		s := arms[arm]
		layers := slices.SortedFunc(maps.Keys(s.Layers), func(a, b string) int {
			return cmp.Or(cmp.Compare(s.Layers[b], s.Layers[a]), cmp.Compare(a, b))
		})
		line := fmt.Sprintf("%s: %.0f samples", arm, s.Samples)
		for _, layer := range layers {
			line += fmt.Sprintf(", %s %.1f %%", layer, 100*s.Layers[layer])
		}
		lines = append(lines, fmt.Sprintf("%s, unattributed %.1f %%", line, 100*s.Unattributed))
	}
	return strings.Join(lines, "\n")
}

// What Alike lets pass.
const (
	// minShare a layer must have in each demo.
	minShare = 0.01
	// maxRatio of a layer's shares. Two demos in an emulated machine differ by
	// up to a factor of two when the host is busy; a layer that is recognised by
	// symbols that are hidden is gone, or takes in another one.
	maxRatio = 2.5
	// maxUnknown is how much of an arm's time may be in no layer.
	maxUnknown = 0.05
)

// Alike compares two demos of the same arms: every arm must have each of the
// layers in both, in much the same share, and hardly any time outside all layers.
func Alike(layers []string, a, b map[string]Shares) error {
	var wrong []string
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, arm := range slices.Sorted(maps.Keys(all)) {
		x, inA := a[arm]
		y, inB := b[arm]
		if !inA || !inB {
			wrong = append(wrong, fmt.Sprintf("%s is in one demo only", arm))
			continue
		}
		for _, layer := range layers {
			p, q := x.Layers[layer], y.Layers[layer]
			if low, high := min(p, q), max(p, q); !(low >= minShare) || high > maxRatio*low {
				wrong = append(wrong, fmt.Sprintf("%s: %s is %.1f %% and %.1f %%", arm, layer, 100*p, 100*q))
			}
		}
		if p, q := x.unknown(), y.unknown(); p > maxUnknown || q > maxUnknown {
			wrong = append(wrong, fmt.Sprintf("%s: %.1f %% and %.1f %% are in no layer", arm, 100*p, 100*q))
		}
	}
	if wrong != nil {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// unknown is the share in no layer: functions outside all rules, and stacks
// without an owner.
func (s Shares) unknown() float64 { return s.Layers["other"] + s.Unattributed }
