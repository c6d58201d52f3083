package profile

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/bpf"
)

var _ symbol.KernelNamer = (*bpf.Profiler)(nil)

var update = flag.Bool("update", false, "rewrite golden files")

// Addresses of the made-up program: user code below 0x10000, kernel above. A
// user function spans 0x100 bytes, its line being the offset within it; a
// kernel function spans 0x10.
var (
	userNames = map[uint64][]string{
		0x1000: {"main.main"},
		0x1100: {"main.small", "main.middle", "main.Hot"}, // inlined
		0x1200: {"internal/runtime/syscall/linux.Syscall6"},
		0x1300: {"main.(*server).serve"},
		0x1400: {"main.touch"},
	}
	kernelNames = map[uint64]string{
		0xff00: "entry_SYSCALL_64_after_hwframe", 0xff10: "do_syscall_64", 0xff20: "ksys_write",
		0xff30: "tcp_sendmsg", 0xff40: "__local_bh_enable_ip", 0xff50: "do_softirq.part.0",
		0xff60: "handle_softirqs", 0xff70: "tcp_v4_rcv",
		0xff80: "asm_exc_page_fault", 0xff90: "exc_page_fault", 0xffa0: "clear_page_erms",
		0xffb0: "asm_sysvec_apic_timer_interrupt", 0xffc0: "sysvec_apic_timer_interrupt",
		0xffd0: "hrtimer_interrupt", 0xffe0: "el0_interrupt",
	}
)

type fakeProcess struct{}

func (fakeProcess) Lookup(addr uint64) symbol.Location {
	m := symbol.Mapping{File: "/app/server", BuildID: "c0ffee", Inode: 7}
	names, ok := userNames[addr&^0xff]
	if !ok {
		return symbol.Location{
			Mapping: m, Address: addr, Loss: symbol.NoSymbol,
			Lines: []symbol.Line{{Function: fmt.Sprintf("[unknown] /app/server+%#x", addr)}},
		}
	}
	loc := symbol.Location{Mapping: m, Address: addr}
	for _, n := range names {
		loc.Lines = append(loc.Lines, symbol.Line{Function: n, Linkage: n, File: "server.go", Line: int(addr & 0xff), StartLine: 1})
	}
	return loc
}

func openFake(pid uint32) (Process, error) {
	if pid == 404 {
		return nil, errors.New("no such process")
	}
	return fakeProcess{}, nil
}

type fakeKernel struct{}

func (fakeKernel) KernelName(addr uint64) (string, uint64, error) {
	if name, ok := kernelNames[addr&^0xf]; ok {
		return name, addr & 0xf, nil
	}
	return "", 0, errors.New("no symbol")
}

func frames(addrs ...uint64) []bpf.Frame {
	var fs []bpf.Frame
	for _, a := range addrs {
		kind := bpf.FrameNative
		if a >= 0x10000>>1 {
			kind = bpf.FrameKernel
		}
		fs = append(fs, bpf.Frame{Value: a, Kind: kind})
	}
	return fs
}

var stacks = map[uint64]bpf.Stack{
	// Return addresses end in the byte after the call: 0x1108 is looked up at 0x1107.
	1:  {Frames: frames(0x1105, 0x1305, 0x1008)},
	2:  {Frames: frames(0xff32, 0xff22, 0xff12, 0xff02, 0x1210, 0x1305, 0x1008)},
	3:  {Frames: frames(0xff71, 0xff62, 0xff52, 0xff42, 0xff32, 0xff22, 0xff12, 0xff02, 0x1210, 0x1305, 0x1008)},
	4:  {Frames: frames(0xffa1, 0xff92, 0xff82, 0x1400, 0x1008)},
	5:  {Frames: frames(0xffd1, 0xffc2, 0xffb2, 0x1400, 0x1008)},
	6:  {Frames: frames(0xff62, 0xffc2, 0xffb2, 0xff92, 0xff82, 0x1400, 0x1008)},
	7:  {Frames: frames(0xdead, 0xbeef, 0x1210, 0x1008)}, // kernel names hidden
	8:  {Frames: frames(0xff32, 0xff12), UserMissing: true},
	9:  {Frames: frames(0x1105, 0x1305), UserTruncated: true},
	10: {Frames: frames(0x1105, 0x4242, 0x1008)},
	11: {UserMissing: true},
	12: {Frames: append(frames(0x1105), bpf.Frame{Kind: bpf.FrameError, Value: 3})},
	13: {Frames: frames(0x1105, 0x1305, 0x1008)}, // as 1, under another hash
}

func input(samples ...bpf.Sample) Input {
	return Input{
		Samples: samples,
		Stack:   func(h uint64) (bpf.Stack, bool) { s, ok := stacks[h]; return s, ok },
		Comms:   map[uint32]string{11: "worker-3", 12: "worker-12", 13: "GC Thread#0"},
		Process: openFake,
		Kernel:  fakeKernel{},
		RateHz:  999,
		Start:   time.Unix(1_700_000_000, 5),
		Length:  5 * time.Second,
		Arch:    "amd64",
	}
}

func TestBuildGolden(t *testing.T) {
	user := func(hash uint64, n uint64) bpf.Sample {
		return bpf.Sample{Tgid: 10, Tid: 11, StackHash: hash, Syscall: -1, Count: n}
	}
	kernel := func(hash uint64, nr int32, n uint64) bpf.Sample {
		return bpf.Sample{Tgid: 10, Tid: 11, StackHash: hash, InKernel: true, Syscall: nr, Count: n}
	}
	noKernel := input(kernel(2, 1, 2), kernel(4, -1, 3))
	noKernel.Kernel = nil
	arm := input(kernel(2, 64, 2))
	arm.Arch = "arm64"
	for _, tt := range []struct {
		name string
		in   Input
		want Stats
	}{
		{"user_inlined", input(user(1, 3)), Stats{OnCPU: Losses{Samples: 3}}},
		{"syscall_write", input(kernel(2, 1, 4)), Stats{OnCPU: Losses{Samples: 4}}},
		{"syscall_write_arm64", arm, Stats{OnCPU: Losses{Samples: 2}}},
		{"softirq_within_write", input(kernel(3, 1, 4), kernel(2, 1, 1)), Stats{OnCPU: Losses{Samples: 5}}},
		{"page_fault", input(kernel(4, -1, 2)), Stats{OnCPU: Losses{Samples: 2}}},
		{"interrupt_from_user_mode", input(kernel(5, -1, 2)), Stats{OnCPU: Losses{Samples: 2}}},
		{"interrupt_within_page_fault", input(kernel(6, -1, 2)), Stats{OnCPU: Losses{Samples: 2}}},
		{"kernel_names_hidden", noKernel, Stats{OnCPU: Losses{Samples: 5, UnnamedKernel: 5}}},
		{"kernel_without_name", input(kernel(7, 202, 2), kernel(7, -1, 3)), Stats{OnCPU: Losses{Samples: 5, UnnamedKernel: 5}}},
		{"missing_user_stack", input(kernel(8, 1, 2), user(11, 5)), Stats{OnCPU: Losses{Samples: 7, MissingStack: 7}}},
		{"lost_stack", input(user(0, 2), user(999, 1), kernel(0, 1, 4)), Stats{OnCPU: Losses{Samples: 7, LostStack: 7}}},
		{"truncated", input(user(9, 2), user(12, 1)), Stats{OnCPU: Losses{Samples: 3, Truncated: 3}}},
		{"unknown_function", input(user(10, 2)), Stats{OnCPU: Losses{Samples: 2, User: symbol.Losses{symbol.NoSymbol: 2}}}},
		{"unknown_process_and_thread", input(bpf.Sample{Tgid: 404, Tid: 405, StackHash: 1, Syscall: -1, Count: 2}),
			Stats{OnCPU: Losses{Samples: 2, NoProcess: 2, NoComm: 2, User: symbol.Losses{symbol.UnknownMapping: 2}}}},
		{"merged_by_thread_and_block", input(
			user(1, 3), user(13, 4), // one stack, two hashes
			bpf.Sample{Tgid: 10, Tid: 12, StackHash: 1, Syscall: -1, Count: 1},
			bpf.Sample{Tgid: 10, Tid: 12, StackHash: 1, Syscall: -1, Count: 1, Block: 5},
			bpf.Sample{Tgid: 10, Tid: 13, StackHash: 1, Syscall: -1, Count: 1, Block: 5},
			user(1, 0)), Stats{OnCPU: Losses{Samples: 10}}},
		{"no_samples", input(), Stats{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, stats, err := Build(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, stats); diff != "" {
				t.Errorf("stats (-want +got):\n%s", diff)
			}
			checkGolden(t, tt.name, p)
		})
	}
}

func checkGolden(t *testing.T, name string, p *profile.Profile) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	got := p.String()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run with -update to make it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// The order in which the kernel's map gives its samples must not show.
func TestBuildIsDeterministic(t *testing.T) {
	var samples []bpf.Sample
	for i := range 400 {
		samples = append(samples, bpf.Sample{
			Tgid: 10, Tid: uint32(11 + i%4), StackHash: uint64(i % 15), Block: uint32(i % 7),
			InKernel: i%15 >= 2 && i%15 <= 8, Syscall: int32(i%3) - 1, Count: uint64(1 + i%5),
		})
	}
	var first []byte
	for round := range 5 {
		p, stats, err := Build(input(samples...))
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		if err := p.Write(&buf); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			first = bytes.Clone(buf.Bytes())
		} else if !bytes.Equal(first, buf.Bytes()) {
			t.Fatal("another order of samples gave other bytes")
		}
		var ticks, ns int64
		for _, s := range p.Sample {
			ticks += s.Value[0]
			ns += s.Value[1]
		}
		if uint64(ticks) != stats.OnCPU.Samples || ns != ticks*p.Period {
			t.Errorf("profile holds %d ticks and %d ns, samples had %d ticks of %d ns", ticks, ns, stats.OnCPU.Samples, p.Period)
		}
		rand.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	}
	if p, err := profile.ParseData(first); err != nil {
		t.Error(err)
	} else if p.Mapping[0].File != "/app/server" {
		t.Errorf("first mapping is %q; pprof takes it for the program", p.Mapping[0].File)
	} else if err := p.CheckValid(); err != nil {
		t.Error(err)
	}
}

func TestBuildRefuses(t *testing.T) {
	noRate, noStack, noProcess := input(), input(), input()
	noRate.RateHz, noStack.Stack, noProcess.Process = 0, nil, nil
	for _, in := range []Input{noRate, noStack, noProcess} {
		if p, _, err := Build(in); err == nil || p != nil && err != nil {
			t.Errorf("Build gave (%v, %v), want an error and no profile", p, err)
		}
	}
}

func TestClassify(t *testing.T) {
	for _, tt := range []struct {
		rootFirst string
		entry     string
		interrupt string // function, "" for none
	}{
		{"asm_exc_page_fault exc_page_fault do_user_addr_fault handle_mm_fault clear_page_erms", "page fault", ""},
		{"el0t_64_sync el0t_64_sync_handler el0_da do_mem_abort do_page_fault handle_mm_fault", "page fault", ""},
		{"el0t_64_sync el0t_64_sync_handler el0_ia do_mem_abort", "page fault", ""},
		{"el0t_64_irq el0t_64_irq_handler __el0_irq_handler_common el0_interrupt", "interrupt", "el0t_64_irq"},
		{"asm_common_interrupt common_interrupt __common_interrupt handle_edge_irq", "interrupt", "asm_common_interrupt"},
		{"asm_sysvec_apic_timer_interrupt sysvec_apic_timer_interrupt hrtimer_interrupt", "interrupt", "asm_sysvec_apic_timer_interrupt"},
		{"asm_sysvec_apic_timer_interrupt irqentry_exit_to_user_mode schedule", "kernel", ""},
		{"el0t_64_irq el0_interrupt do_notify_resume schedule finish_task_switch", "kernel", ""},
		{"asm_sysvec_apic_timer_interrupt irqentry_exit_to_user_mode schedule asm_sysvec_call_function __irq_exit_rcu handle_softirqs", "interrupt", "asm_sysvec_call_function"},
		{"do_syscall_64 ksys_write asm_sysvec_reschedule_ipi irqentry_exit preempt_schedule_irq __schedule finish_task_switch", "kernel", ""},
		{"asm_exc_page_fault do_user_addr_fault handle_mm_fault io_schedule schedule __schedule", "page fault", ""},
		{"el0t_64_sync el0_da handle_mm_fault el1h_64_irq el1h_64_irq_handler el1_interrupt", "page fault", "el1h_64_irq"},
		{"do_syscall_64 ksys_write tcp_sendmsg __local_bh_enable_ip do_softirq.part.0 handle_softirqs net_rx_action", "interrupt", "do_softirq.part.0"},
		{"el0t_64_sync el0_svc __arm64_sys_write __local_bh_enable_ip do_softirq.part.0 call_on_irq_stack handle_softirqs", "interrupt", "do_softirq.part.0"},
		{"do_syscall_64 ksys_write __softirqentry_text_start", "interrupt", "__softirqentry_text_start"},
		{"do_syscall_64 ksys_read copy_page_to_iter asm_exc_page_fault", "page fault", ""},
		{"nft_do_chain [nf_tables]", "kernel", ""},
		{"asm_exc_int3 exc_int3", "kernel", ""},
		{"ret_from_fork_asm ret_from_fork", "kernel", ""},
		{UnknownKernel, "kernel", ""},
		{"", "kernel", ""},
	} {
		var names []string
		if tt.rootFirst == UnknownKernel {
			names = []string{UnknownKernel}
		} else {
			for _, n := range strings.Fields(tt.rootFirst) {
				names = append([]string{n}, names...)
			}
		}
		entry, at := classify(names)
		interrupt := ""
		if at >= 0 {
			interrupt = names[at]
		}
		if entry != tt.entry || interrupt != tt.interrupt {
			t.Errorf("%q: got (%q, %q), want (%q, %q)", tt.rootFirst, entry, interrupt, tt.entry, tt.interrupt)
		}
	}
}
