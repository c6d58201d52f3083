package report

import "fmt"

// layoutProfiler adds what was lost, and what the profiler itself used.
func layoutProfiler(d *document, r *Report) {
	d.add(heading{2, "Losses"})
	layoutLosses(d, r)
	d.add(heading{2, "The profiler's own CPU, at each arm's top step"})
	layoutCost(d, r)
	layoutOverhead(d, r)
}

// layoutOverhead shows what profiling cost the arms, by their control steps.
func layoutOverhead(d *document, r *Report) {
	t := tableBlock{repeat: 1, columns: []column{
		{head: []string{"arm"}, left: true}, {head: []string{"offered", "/s"}}, {head: []string{"with", "ms/req"}},
		{head: []string{"without", "ms/req"}}, {head: []string{"difference", "%"}}, {head: []string{"step"}, left: true}, {head: []string{"control"}, left: true},
	}}
	var notes []string
	for i := range r.Arms {
		a := &r.Arms[i]
		for _, o := range a.Overheads {
			t.rows = append(t.rows, tableRow{cells: []string{a.Name, offered(o.OfferedHz), perRequest(o.WithMs), perRequest(o.WithoutMs),
				fmt.Sprintf("%+.1f", 100*o.Share), o.Step, o.Control}})
		}
		if a.Overhead != nil {
			notes = append(notes, fmt.Sprintf("%s: profiling changed CPU per request by %+.1f %%, the median of %d", a.Name, 100**a.Overhead, len(a.Overheads)))
		}
	}
	if len(t.rows) == 0 {
		return // no run had control steps
	}
	d.add(heading{2, "What profiling cost the arms"})
	d.add(t)
	d.note(notes)
	d.explain([]entry{{"with, without", "CPU of the arm's cgroup ÷ deliveredInWindow, of a profiled step and of its control without the agent, read alike"}})
}

func layoutLosses(d *document, r *Report) {
	t := tableBlock{repeat: 1, columns: []column{
		{head: []string{"loss"}, left: true}, {head: []string{"arm"}, left: true}, {head: []string{"count"}},
		{head: []string{"steps"}}, {head: []string{"meaning"}, left: true, wrap: true},
	}}
	records := false
	for i := range r.Arms {
		a := &r.Arms[i]
		var order []string
		total := map[string]uint64{}
		meaning := map[string]string{}
		where := map[string][]string{}
		for _, s := range a.Steps {
			records = records || s.Account != nil || s.Cost != nil
			for _, l := range s.Losses {
				if l.Count == 0 {
					continue
				}
				if where[l.Name] == nil {
					order = append(order, l.Name)
				}
				total[l.Name] += l.Count
				meaning[l.Name] = l.Meaning
				where[l.Name] = append(where[l.Name], s.Name)
			}
		}
		for _, name := range order {
			t.rows = append(t.rows, tableRow{cells: []string{name, a.Name, fmt.Sprint(total[name]), fmt.Sprintf("%d of %d", len(where[name]), len(a.Steps)), meaning[name]}})
		}
	}
	switch {
	case len(t.rows) > 0:
		d.add(t)
	case records:
		d.add(para{"None: every event of every step reached the account and the profile whole."})
	default:
		d.add(para{"Not known: no step has a record."})
	}
}

func layoutCost(d *document, r *Report) {
	t := tableBlock{repeat: 1, columns: []column{
		{head: []string{"arm"}, left: true}, {head: []string{"step"}, left: true},
		{head: []string{"BPF", "ms"}}, {head: []string{"agent", "ms"}}, {head: []string{"together", "ms"}},
		{head: []string{"% of", "one core"}}, {head: []string{"% of the", "arm's CPU"}},
		{head: []string{"agent RSS", "MB"}}, {head: []string{"maps", "MB"}},
	}}
	var notes []string
	for i := range r.Arms {
		a := &r.Arms[i]
		top := a.TopStep()
		if top == nil || top.Cost == nil {
			continue
		}
		c := top.Cost
		bpf, together := absent, absent
		ofCore, ofArm := absent, absent
		if c.BPFNs != nil {
			sum := float64(*c.BPFNs + c.AgentCPUNs)
			bpf, together = number(float64(*c.BPFNs)/1e6, 1), number(sum/1e6, 1)
			if c.WindowNs > 0 {
				ofCore = number(100*sum/float64(c.WindowNs), 2)
			}
			if c.ArmNs != nil && *c.ArmNs > 0 {
				ofArm = number(100*sum/float64(*c.ArmNs), 2)
			}
		} else {
			notes = append(notes, fmt.Sprintf("%s BPF of %s: %s", absent, a.Name, orElse(c.BPFMissing, "not measured")))
		}
		t.rows = append(t.rows, tableRow{cells: []string{a.Name, top.Name, bpf, number(float64(c.AgentCPUNs)/1e6, 1), together,
			ofCore, ofArm, megabytes(c.AgentRSSBytes), megabytes(c.MapBytes)}})
	}
	if len(t.rows) == 0 {
		d.add(para{"Not known: no top step has a record."})
		return
	}
	d.add(t)
	d.note(notes)
	d.explain([]entry{
		{"BPF", "run time of all BPF programs in the window, on whichever CPU; part of it is charged to the arm, whose events trigger them"},
		{"agent", "CPU of the agent process in the window: symbols and counters"},
		{"% of the arm's CPU", "BPF + agent ÷ usage_usec of the arm's cgroup"},
	})
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
