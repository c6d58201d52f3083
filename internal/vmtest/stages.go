package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rungprof/rung/internal/vmtest/capset"
	"github.com/rungprof/rung/internal/vmtest/gate"
	"github.com/rungprof/rung/internal/vmtest/machine"
	"github.com/rungprof/rung/internal/vmtest/wire"
)

// How a hardened node boots and is set, as far as it concerns the agent.
var (
	hardenedBoot    = []string{"lockdown=confidentiality", "proc_mem.force_override=never"}
	hardenedSysctls = []wire.Sysctl{
		{Name: "kernel.kptr_restrict", Value: "2"},
		{Name: "kernel.perf_event_paranoid", Value: "3"},
		{Name: "net.core.bpf_jit_harden", Value: "2"},
	}
	// Debian's kernels refuse perf_event_open at 3 to all but CAP_SYS_ADMIN
	// (CONFIG_SECURITY_PERF_EVENTS_RESTRICT); other kernels treat 3 as 2. So 2
	// is what the agent meets on a node whose kernel is not Debian's.
	agentParanoid = []wire.Sysctl{{Name: "kernel.perf_event_paranoid", Value: "2"}}
	rootParanoid  = []wire.Sysctl{{Name: "kernel.perf_event_paranoid", Value: "3"}}
)

// kernelTests are the packages whose tests need a kernel, and which of their
// tests those are. Left out is what any one kernel shows as well as another, and
// would take minutes emulated: full tables, refusals, two at once.
var kernelTests = []struct{ pkg, run, skip string }{
	{"./bpf", ".", "Full|Unread|Killed|TwoProfilers|BadInput|Leaves"},
	{"./agent", "^TestLive$", ""},
}

// gateStages lists the wanted stages in order and builds what they run. A
// stage is wanted if its name begins with one of only; nil wants all.
func gateStages(ctx context.Context, shop *workshop, only []string) ([]stage, error) {
	stages := append(machineStages(), checkStages()...)
	for _, t := range kernelTests {
		stages = append(stages, testStage(t.pkg, t.run, t.skip))
	}
	stages = append(stages, demoStages()...)
	stages = slices.DeleteFunc(stages, func(s stage) bool {
		return only != nil && !slices.ContainsFunc(only, func(o string) bool { return strings.HasPrefix(s.payload.Name, o) })
	})
	if len(stages) == 0 {
		return nil, usage(fmt.Errorf("--only %s: no stage of that name", strings.Join(only, ",")))
	}
	return stages, shop.buildStages(ctx, stages)
}

// buildStages builds what stages run, each once.
func (w *workshop) buildStages(ctx context.Context, stages []stage) error {
	built := map[string]bool{}
	for _, s := range stages {
		if exe := s.payload.Argv[0]; !built[exe] {
			built[exe] = true
			if err := w.build(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// The commands that stages run, and where they lie in the guest.
const (
	probePkg, probeExe = "./internal/vmtest/probe", wire.PayloadDir + "/probe"
	rungPkg, rungExe   = "./cmd/rung", wire.PayloadDir + "/rung"
)

// machineStages see to it that the machine is what the other stages take it for.
func machineStages() []stage {
	args := []string{probeExe, "-caps", "all", "-lockdown", "confidentiality"}
	for _, s := range hardenedSysctls {
		args = append(args, "-sysctl", s.Name+"="+s.Value)
	}
	return []stage{
		{pkg: probePkg, payload: wire.Payload{Name: "machine", Argv: args, Caps: capset.All}},
		{pkg: probePkg, payload: wire.Payload{Name: "capabilities", Argv: []string{probeExe, "-caps", "agent"}, Caps: capset.Agent}},
	}
}

// checkStages load and attach the programs once with each set of capabilities.
func checkStages() []stage {
	return []stage{
		{pkg: rungPkg, payload: wire.Payload{Name: "check-root", Argv: []string{rungExe, "check"}, Caps: capset.All, Sysctls: rootParanoid}},
		{pkg: rungPkg, payload: wire.Payload{Name: "check-agent", Argv: []string{rungExe, "check"}, Caps: capset.Agent, Sysctls: agentParanoid}},
	}
}

// testStage runs a package's kernel tests with the agent's capabilities.
func testStage(pkg, run, skip string) stage {
	name := path.Base(pkg)
	exe := path.Join(wire.PayloadDir, "tests", pkg, name+".test")
	return stage{
		pkg: pkg, test: true,
		payload: wire.Payload{
			Name: name, Argv: []string{exe, "-test.v", "-test.run", run, "-test.skip", skip}, Dir: path.Dir(exe),
			Env:  []string{"RUNG_TEST_EMULATED=1"},
			Caps: capset.Agent, Sysctls: agentParanoid,
		},
		judge: func(stdout []byte) (string, error) {
			log, err := gate.ParseTestLog(bytes.NewReader(stdout))
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d tests passed", len(log.Passed)), log.Err()
		},
	}
}

// demoStages are two demos, with kernel symbols readable and hidden. The
// driver and the arms have all capabilities, the agent just its own: it must
// look into processes more privileged than itself, as on a node.
func demoStages() []stage {
	var readable map[string]gate.Shares // of the first demo, once it has passed
	demo := func(kptrRestrict string, judge func(map[string]gate.Shares) error) stage {
		name := "demo-kptr-" + kptrRestrict
		return stage{
			pkg: rungPkg, quiet: true,
			payload: wire.Payload{
				Name: name,
				Argv: []string{rungExe, "demo", "--arms", "rest-h1,grpc-unary", "--rates", "40", "--duration", "5s",
					"--body", "tiny", "--quota", "0.8", "--max-in-flight", "4", "--connections", "2", "--json", "--output", "/tmp/" + name},
				Caps:      capset.All,
				Limited:   map[string]capset.Set{"agent": capset.Agent},
				Sysctls:   append([]wire.Sysctl{{Name: "kernel.kptr_restrict", Value: kptrRestrict}}, agentParanoid...),
				TimeoutMs: (120 * time.Second).Milliseconds(),
			},
			judge: func(stdout []byte) (string, error) {
				shares, err := gate.ParseReport(stdout)
				if err != nil {
					return "", err
				}
				return gate.Describe(shares), judge(shares)
			},
		}
	}
	return []stage{
		demo("0", func(shares map[string]gate.Shares) error {
			readable = shares
			return nil
		}),
		demo("2", func(shares map[string]gate.Shares) error {
			if readable == nil {
				return fmt.Errorf("nothing to compare with: the first demo gave no report")
			}
			return gate.Alike([]string{"syscalls", "interrupt"}, readable, shares)
		}),
	}
}

// build compiles a stage's command or tests for the guest. Tests find their testdata beside them.
func (w *workshop) build(ctx context.Context, s stage) error {
	exe := s.payload.Argv[0]
	out := filepath.Join(w.dir, path.Base(exe))
	w.config.Files = append(w.config.Files, machine.File{Host: out, Guest: exe})
	if !s.test {
		return w.module.Build(ctx, w.config.Arch, s.pkg, out)
	}
	testdata := filepath.Join(w.module.Root, s.pkg, "testdata")
	if _, err := os.Stat(testdata); err == nil {
		w.config.Files = append(w.config.Files, machine.File{Host: testdata, Guest: path.Join(path.Dir(exe), "testdata")})
	}
	return w.module.Test(ctx, w.config.Arch, s.pkg, out)
}
