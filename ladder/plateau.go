package ladder

// Shape is how delivery goes past the knee.
type Shape string

// Shapes of a plateau. Peak is the most that any step of the ladder delivered.
const (
	Rising   Shape = "rising"   // the last step delivers most, by over 5 %: no plateau yet
	Flat     Shape = "flat"     // all steps within 5 % of the peak
	Falling  Shape = "falling"  // some step 5 % to 25 % below the peak
	Collapse Shape = "collapse" // some step more than 25 % below the peak
)

// Plateau describes the steps past the knee.
type Plateau struct {
	Shape Shape `json:"shape"`
	// MeanHz is the mean of delivered/s, MinHz and MaxHz its range, past the knee.
	MeanHz float64 `json:"meanHz"`
	MinHz  float64 `json:"minHz"`
	MaxHz  float64 `json:"maxHz"`
	// PeakHz is the most that any step delivered, the knee's and below too.
	PeakHz float64 `json:"peakHz"`
	Steps  int     `json:"steps"`
}

// plateau needs two steps past the knee; it is nil without.
func plateau(use []Step, knee int) *Plateau {
	past := use[knee+1:]
	if len(past) < 2 {
		return nil
	}
	p := &Plateau{MinHz: past[0].DeliveredHz, MaxHz: past[0].DeliveredHz, Steps: len(past)}
	for _, s := range use {
		p.PeakHz = max(p.PeakHz, s.DeliveredHz)
	}
	for _, s := range past {
		p.MeanHz += s.DeliveredHz / float64(len(past))
		p.MinHz = min(p.MinHz, s.DeliveredHz)
		p.MaxHz = max(p.MaxHz, s.DeliveredHz)
	}
	before := 0.0 // the most that a step below the last one delivered
	for _, s := range use[:len(use)-1] {
		before = max(before, s.DeliveredHz)
	}
	last := use[len(use)-1].DeliveredHz
	switch {
	case p.MinHz < 0.75*p.PeakHz && last <= before*1.05:
		p.Shape = Collapse
	case last > before*1.05:
		p.Shape = Rising
	case p.MinHz < 0.95*p.PeakHz:
		p.Shape = Falling
	default:
		p.Shape = Flat
	}
	return p
}

// Fit is cores = Intercept + PerRequest × rate by least squares.
type Fit struct {
	// InterceptCores is CPU that does not depend on load.
	InterceptCores float64 `json:"interceptCores"`
	// MsPerRequest is the marginal CPU of one more request.
	MsPerRequest float64 `json:"msPerRequest"`
	// MaxResidualCores is the largest distance of a step from the line.
	MaxResidualCores float64 `json:"maxResidualCores"`
	Steps            int     `json:"steps"`
}

// fitCores fits the steps that keep the rule and have a usage over their
// delivered rate; nil with fewer than three, or with one rate only.
func fitCores(steps []Step, rule KneeRule) *Fit {
	var x, y []float64
	for _, s := range steps {
		if ok, _ := rule.Keeps(s); ok && s.Cores != nil {
			x, y = append(x, s.DeliveredHz), append(y, *s.Cores)
		}
	}
	n := float64(len(x))
	if n < minSteps {
		return nil
	}
	var mx, my float64
	for i := range x {
		mx += x[i] / n
		my += y[i] / n
	}
	var sxx, sxy float64
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxy += (x[i] - mx) * (y[i] - my)
	}
	if sxx == 0 {
		return nil
	}
	b := sxy / sxx
	f := &Fit{InterceptCores: my - b*mx, MsPerRequest: 1000 * b, Steps: len(x)}
	for i := range x {
		r := y[i] - f.InterceptCores - b*x[i]
		f.MaxResidualCores = max(f.MaxResidualCores, r, -r)
	}
	return f
}
