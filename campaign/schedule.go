package campaign

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Ladder is one arm at one point of the sweep, once.
type Ladder struct {
	// ID is also the name of its run directory: ordinal, arm, point, repeat.
	ID      string `json:"id"`
	Ordinal int    `json:"ordinal"` // from 1
	ArmName string `json:"arm"`
	// Twin marks the second of an A/A pair; the first is the arm's ordinary ladder.
	Twin    bool      `json:"twin,omitempty"`
	Point   int       `json:"point"` // index of the sweep's point
	Sweep   []Setting `json:"sweep,omitempty"`
	Repeat  int       `json:"repeat"` // from 1
	Seed    uint64    `json:"seed"`   // of its steps' arrivals
	AtMost  bool      `json:"atMost,omitempty"`
	Steps   []Step    `json:"steps,omitempty"`
	Length  Duration  `json:"length"` // estimated; the longest, where AtMost
	Setting Effective `json:"-"`

	rule kneeRule
}

// Schedule is all of a campaign's ladders in the order in which they are driven.
type Schedule struct {
	Ladders []Ladder `json:"ladders"`
	Length  Duration `json:"length"`
	AtMost  bool     `json:"atMost,omitempty"`
	// Warnings is what about the plan weakens its figures.
	Warnings []string `json:"warnings,omitempty"`
}

// What a schedule reckons with beside the steps' own lengths: to start, connect
// and drain a step; to start and end an arm; to start an embedded agent.
const (
	StepOverhead   = 800 * time.Millisecond
	LadderOverhead = 1500 * time.Millisecond
	AgentOverhead  = 1500 * time.Millisecond
)

// points are the sweep's points: the product of its axes, the last one fastest.
func (p *Plan) points() [][]Setting {
	points := [][]Setting{nil}
	for _, axis := range p.Sweep {
		var next [][]Setting
		for _, point := range points {
			for _, v := range axis.Values {
				next = append(next, append(slices.Clone(point), Setting{axis.Key, v}))
			}
			if len(next) > maxLadders {
				break
			}
		}
		points = next
	}
	return points
}

// unit is what every pass drives once.
type unit struct {
	arm   Arm
	twin  bool
	point int
}

// Schedule makes the order of a plan that was parsed.
//
// One pass drives every arm at every point of the sweep. Each second pass runs
// backwards (ABBA), so that over an even number of repeats all arms stand at the
// same mean position, and a drift of the machine falls on all alike.
func (p *Plan) Schedule(known Known) (Schedule, error) {
	points := p.points()
	var s Schedule
	for repeat := 1; repeat <= p.Repeats; repeat++ {
		for _, u := range p.pass(repeat, len(points)) {
			e, err := p.effective(u.arm, points[u.point], known)
			if err != nil {
				return Schedule{}, fmt.Errorf("arm %s at %s: %w", u.arm.Name, SweepText(points[u.point]), err)
			}
			l := Ladder{
				Ordinal: len(s.Ladders) + 1, ArmName: u.arm.Name, Twin: u.twin, Point: u.point, Sweep: points[u.point],
				Repeat: repeat, Seed: mix(p.Seed, uint64(repeat)), Setting: e, rule: kneeRule{p.KneeRule},
			}
			l.ID = l.id()
			l.plan()
			s.Ladders = append(s.Ladders, l)
			s.Length += l.Length
			s.AtMost = s.AtMost || l.AtMost
		}
	}
	s.Warnings = p.warnings()
	return s, nil
}

// pass is the order of one repeat.
func (p *Plan) pass(repeat, points int) []unit {
	arms := slices.Clone(p.Arms)
	if p.Order == OrderShuffled {
		shuffle(arms, mix(p.Seed, uint64(repeat+1)/2, 0x5bd1))
	}
	var units []unit
	for point := range points {
		for _, a := range arms {
			units = append(units, unit{a, false, point})
		}
		// The twins stand behind all arms: A B A', and backwards A' B A.
		for _, a := range arms {
			if slices.Contains(p.AA, a.Name) {
				units = append(units, unit{a, true, point})
			}
		}
	}
	if repeat%2 == 0 {
		slices.Reverse(units)
	}
	return units
}

func (p *Plan) warnings() []string {
	var w []string
	several := len(p.Arms) > 1 || len(p.Sweep) > 0
	if several && p.Repeats%2 == 1 && p.Repeats > 1 {
		w = append(w, fmt.Sprintf("%d repeats: the order is balanced over an even number only", p.Repeats))
	}
	if several && p.Repeats == 1 {
		w = append(w, "1 repeat: a drift of the machine cannot be told from a difference of arms")
	}
	if len(p.Arms) > 1 && len(p.AA) == 0 {
		w = append(w, "no A/A pairs: no noise floor, so no difference is called within noise (aa: ["+p.Arms[0].Name+"])")
	}
	return w
}

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._=-]+`)

// id is short, sorts in the order of the schedule, and is a file's name.
func (l *Ladder) id() string {
	parts := []string{fmt.Sprintf("%03d", l.Ordinal), l.ArmName}
	if len(l.Sweep) > 0 {
		name := unsafeInName.ReplaceAllString(strings.ReplaceAll(SweepText(l.Sweep), " ", "-"), "_")
		if len(name) > 48 {
			name = fmt.Sprintf("p%02d", l.Point+1)
		}
		parts = append(parts, name)
	}
	parts = append(parts, fmt.Sprintf("r%d", l.Repeat))
	if l.Twin {
		parts = append(parts, "aa")
	}
	return strings.Join(parts, "-")
}

// plan notes the steps as far as they are known ahead, and the length.
func (l *Ladder) plan() {
	l.Steps, l.AtMost = l.ahead()
	l.Length = Duration(LadderOverhead)
	agent := false
	for _, s := range l.Steps {
		l.Length += s.Duration + l.Setting.Spec.Gap + Duration(StepOverhead)
		if s.Profile && !agent {
			l.Length += Duration(AgentOverhead)
		}
		agent = s.Profile
	}
}

// mix makes one number of several (splitmix64), below 2^48 so that it survives
// any JSON reader.
func mix(values ...uint64) uint64 {
	var z uint64
	for _, v := range values {
		z += v + 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
	}
	return z & (1<<48 - 1)
}

// shuffle permutes by a seed (Fisher and Yates).
func shuffle[T any](values []T, seed uint64) {
	for i := len(values) - 1; i > 0; i-- {
		seed = mix(seed, uint64(i))
		j := int(seed % uint64(i+1))
		values[i], values[j] = values[j], values[i]
	}
}
