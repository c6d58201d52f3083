package gate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Shares is a part of the time per layer, summing to 1, pooled over the steps
// of one arm's ladder, and the samples it rests on.
type Shares struct {
	Layers  map[string]float64
	Samples float64
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
			for _, row := range slices.Concat(step.Layers.Rows, step.Layers.Unattributed) {
				s.Layers[row.Layer] += row.SampledNs
			}
		}
		if !(s.Samples >= 1) || !(total > 0) {
			return nil, fmt.Errorf("report of the demo: %s has no sample", arm.Name)
		}
		for layer := range s.Layers {
			s.Layers[layer] /= total
		}
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
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// Alike compares a layer between two demos of the same arms. Each must have
// seen the layer at all, and the shares may differ by five standard errors,
// where samples come in bursts that double the variance, or by five points,
// since rates follow from each demo's own calibration.
func Alike(layer string, a, b map[string]Shares) error {
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
		p, q := x.Layers[layer], y.Layers[layer]
		if p == 0 || q == 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %s is %.1f %% and %.1f %%", arm, layer, 100*p, 100*q))
			continue
		}
		mean := (p*x.Samples + q*y.Samples) / (x.Samples + y.Samples)
		sigma := math.Sqrt(2 * mean * (1 - mean) * (1/x.Samples + 1/y.Samples))
		if limit := math.Max(5*sigma, 0.05); math.Abs(p-q) > limit {
			wrong = append(wrong, fmt.Sprintf("%s: %s is %.1f %% and %.1f %%, more than %.1f points apart",
				arm, layer, 100*p, 100*q, 100*limit))
		}
	}
	if wrong != nil {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return nil
}
