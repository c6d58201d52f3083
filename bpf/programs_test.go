//go:build linux

package bpf

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// programReport is what one program costs this kernel. The tests print it as
// "program {…}", which the matrix of kernels reads.
type programReport struct {
	Name         string  `json:"name"`
	Instructions int     `json:"instructions"` // after relocation; 0 where the kernel does not say
	Verified     int     `json:"verified"`     // that the verifier went through
	VerifyMs     float64 `json:"verifyMs"`     // by its own clock
	LoadMs       float64 `json:"loadMs"`       // of the system call, maps and relocation with it
}

// featureReport is one answer of this kernel, printed as "feature {…}".
type featureReport struct {
	Name   string `json:"name"`
	Answer string `json:"answer"`
}

// truthReport is how far the account lies from a workload that knows its own
// figures, in percent: printed as "truth {…}".
type truthReport struct {
	Name    string  `json:"name"`
	Percent float64 `json:"percent"`
}

// tellTruth prints one, for the matrix of kernels.
func tellTruth(t *testing.T, name string, percent float64) {
	line, _ := json.Marshal(truthReport{name, percent})
	t.Logf("truth %s", line)
}

// outside is by how many percent of whole a figure lies outside of two bounds.
func outside(got, low, high, whole float64) float64 {
	return 100 * max(low-got, got-high, 0) / whole
}

// Each program by itself loads and attaches: kernels that load a program may
// refuse to attach it. The verifier's work stays well below its limit of a
// million instructions.
func TestEachProgram(t *testing.T) {
	load(t, 99) // skips where the host lacks something, and has the kernel's types read
	spec, err := loadRung()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range spec.Programs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			only := spec.Copy()
			for other := range only.Programs {
				if other != name {
					delete(only.Programs, other)
				}
			}
			begin := time.Now()
			loaded, err := ebpf.NewCollectionWithOptions(only, ebpf.CollectionOptions{
				Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats},
			})
			if err != nil {
				t.Fatalf("%+v", loadError(err))
			}
			r := programReport{Name: name, LoadMs: float64(time.Since(begin).Microseconds()) / 1e3}
			defer loaded.Close()
			prog := loaded.Programs[name]
			if err := attachOnce(prog); err != nil {
				t.Fatalf("attach: %v", err)
			}
			info, err := prog.Info()
			if err != nil {
				t.Fatal(err)
			}
			if size, err := info.TranslatedSize(); err == nil {
				r.Instructions = size / 8
			}
			if r.Verified, r.VerifyMs, err = parseVerifierStats(prog.VerifierLog); err != nil {
				t.Error(err)
			}
			line, _ := json.Marshal(r)
			t.Logf("program %s", line)
			if r.Verified > 500_000 {
				t.Errorf("the verifier went through %d instructions, half its limit or more", r.Verified)
			}
		})
	}
}

// attachOnce attaches a program the way Load does, and takes it off.
func attachOnce(prog *ebpf.Program) error {
	var l link.Link
	var err error
	switch prog.Type() {
	case ebpf.Tracing:
		if l, err = link.AttachTracing(link.TracingOptions{Program: prog}); err == nil {
			return l.Close()
		}
		// The iterators are of the same type, and no link of this kind.
		it, iterErr := link.AttachIter(link.IterOptions{Program: prog})
		if iterErr != nil {
			return errors.Join(err, iterErr)
		}
		defer it.Close()
		_, err := readIter(it)
		return err
	case ebpf.PerfEvent:
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
			Size: unix.PERF_ATTR_SIZE_VER1, Sample: 1e6, Bits: unix.PerfBitDisabled}
		fd, err := unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, prog.FD())
	case ebpf.Syscall:
		var in, out rungSymbol
		_, err := prog.Run(&ebpf.RunOptions{Context: &in, ContextOut: &out})
		return err
	}
	return fmt.Errorf("no way to attach a program of type %v", prog.Type())
}

var (
	verifyTime  = regexp.MustCompile(`(?m)^verification time (\d+) usec`)
	verifiedIns = regexp.MustCompile(`(?m)^processed (\d+) insns`)
)

// parseVerifierStats reads the verifier's own figures:
//
//	verification time 1234 usec
//	processed 179 insns (limit 1000000) max_states_per_insn 0 …
func parseVerifierStats(log string) (instructions int, ms float64, err error) {
	took, done := verifyTime.FindStringSubmatch(log), verifiedIns.FindStringSubmatch(log)
	if took == nil || done == nil {
		return 0, 0, fmt.Errorf("the verifier's log has no figures: %q", log)
	}
	us, errTook := strconv.Atoi(took[1])
	instructions, errDone := strconv.Atoi(done[1])
	return instructions, float64(us) / 1e3, errors.Join(errTook, errDone)
}

func TestParseVerifierStats(t *testing.T) {
	n, ms, err := parseVerifierStats("verification time 1234 usec\nstack depth 64+0\nprocessed 179 insns (limit 1000000) max_states_per_insn 0\n")
	if n != 179 || ms != 1.234 || err != nil {
		t.Errorf("%d instructions, %v ms, %v", n, ms, err)
	}
	if _, _, err := parseVerifierStats("verification time 1234 usec\n"); err == nil {
		t.Error("half a log was taken")
	}
}

// What this kernel lets the account know, beside what every kernel does.
func TestFeatures(t *testing.T) {
	p := load(t, 99)
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	answer := func(name, text string) {
		line, _ := json.Marshal(featureReport{name, text})
		t.Logf("feature %s", line)
	}
	throttled := "a bound"
	switch {
	case hasMember(t, spec, "task_struct", "throttled"):
		throttled = "exact, by thread"
	case hasMember(t, spec, "cfs_rq", "throttled_clock_self_time"):
		throttled = "exact, by queue"
	}
	answer("throttled", throttled)
	files := "not told apart"
	if kernelHas(t, "bpf_rdonly_cast") {
		files = "told apart"
	}
	answer("kinds of file waited on", files)
	statistics := "yes"
	arm(t, p, tree(t, p, startWorkload(t, "", "idle", "1s")), 1) // they are on while a window is
	var missing *MissingError
	if _, err := p.Costs(); errors.As(err, &missing) {
		statistics = "refused"
	} else if err != nil {
		t.Fatal(err)
	}
	answer("BPF run-time statistics", statistics)
}

func hasMember(t *testing.T, spec *btf.Spec, name, member string) bool {
	t.Helper()
	var st *btf.Struct
	if err := spec.TypeByName(name, &st); err != nil {
		t.Fatalf("type %s: %v", name, err)
	}
	return slices.ContainsFunc(st.Members, func(m btf.Member) bool { return m.Name == member })
}
