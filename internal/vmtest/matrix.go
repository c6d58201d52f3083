package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungprof/rung/internal/vmtest/capset"
	"github.com/rungprof/rung/internal/vmtest/gate"
	"github.com/rungprof/rung/internal/vmtest/machine"
	"github.com/rungprof/rung/internal/vmtest/wire"
)

// The oldest kernel that rung supports; below it `rung check` must refuse.
const floorMajor, floorMinor = 6, 1

// allTests is the pattern of all kernel tests that tell kernels apart.
const allTests = "."

// matrixOptions are the kernels to hold side by side.
type matrixOptions struct {
	machineFlags
	kernels  string
	lockdown string
	tests    string // which kernel tests to run, as go test's -run
	markdown string // file that gets the table
}

func newMatrixCommand(stdout, stderr io.Writer) *cobra.Command {
	var o matrixOptions
	cmd := &cobra.Command{
		Use:   "matrix",
		Short: "Run the kernel tests on several kernels, with and without lockdown, and print a table",
		Long: `Boot each kernel, plain and as a hardened node boots. Run there, with the
agent's capabilities, rung check and the kernel tests: each program is loaded and
attached by itself, and the account is held against workloads that know the
truth. The table at the end is Markdown; --markdown puts it between the lines
<!-- kernels ARCH --> and <!-- /kernels ARCH --> of a file. A guest that panics or
hangs is booted once more, and the table says so.

KERNELS are series of Debian's kernels, as 6.12, or "newest". One below ` + floor() + ` is
right when rung check and rung agent refuse it, with exit status 2 and the
floor's name.

Exit status: 0 when every kernel was as it should be; 1 when one was not; 2 when
the command line is wrong or the host lacks something.`,
		Example: `  vmtest matrix --arch arm64 --kernels "6.1 6.12 6.18 newest"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return usage(err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("timeout") {
				o.timeout = 15 * time.Minute
			}
			return o.run(cmd.Context(), stdout, stderr)
		},
	}
	o.register(cmd.Flags())
	cmd.Flags().Lookup("kernel").Hidden = true
	cmd.Flags().Lookup("timeout").DefValue = "15m0s"
	cmd.Flags().StringVar(&o.kernels, "kernels", "6.1 6.12 6.18 newest", "`KERNELS`, by spaces or commas")
	cmd.Flags().StringVar(&o.lockdown, "lockdown", "both", "boot with lockdown: off, on or both")
	cmd.Flags().StringVar(&o.markdown, "markdown", "", "write the table into this `FILE`, too")
	cmd.Flags().StringVar(&o.tests, "tests", allTests, "run the kernel tests that match this `REGEXP`, as go test's -run does")
	return cmd
}

func floor() string { return fmt.Sprintf("%d.%d", floorMajor, floorMinor) }

// boots are the ways to boot a kernel.
var boots = []struct {
	flag, lockdown string
	append         []string
	sysctls        []wire.Sysctl
}{
	{"off", "none", nil, nil},
	{"on", "confidentiality", hardenedBoot, hardenedSysctls},
}

func (o *matrixOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	kernels, err := parseKernels(o.kernels)
	if err != nil {
		return usage(fmt.Errorf("--kernels: %w", err))
	}
	if o.lockdown != "off" && o.lockdown != "on" && o.lockdown != "both" {
		return usage(fmt.Errorf("--lockdown %q: want off, on or both", o.lockdown))
	}
	if o.markdown != "" { // before an hour of boots
		if err := o.writeMarkdown(""); err != nil {
			return usage(fmt.Errorf("--markdown: %w", err))
		}
	}
	var rows []gate.Row
	failed := 0
	for _, k := range kernels {
		for _, b := range boots {
			if o.lockdown != "both" && o.lockdown != b.flag {
				continue
			}
			m := o.machineFlags
			m.kernel, m.suites = k.pattern, append(k.suites, o.suites...)
			m.append = append(append([]string(nil), o.append...), b.append...)
			row, err := atMostTwice(func() (gate.Row, error) {
				return matrixRow(ctx, &m, b.lockdown, o.tests, b.sysctls, stdout, stderr)
			})
			row.Lockdown = b.flag
			var exit *exitError
			if errors.As(err, &exit) || ctx.Err() != nil {
				return err // would be the same for each kernel
			}
			if err != nil {
				row.Failed, _, _ = strings.Cut(err.Error(), "\n")
				fmt.Fprintln(stderr, "vmtest:", err)
			}
			if row.Kernel == "" {
				row.Kernel = k.name
			}
			if row.Failed != "" {
				failed++
			}
			rows = append(rows, row)
			if o.markdown != "" { // now, so that an end before the last boot keeps the others
				if err := o.writeMarkdown(o.table(rows)); err != nil {
					return err
				}
			}
			if row.Refused != "" {
				break // the other way to boot changes nothing
			}
		}
	}
	fmt.Fprintf(stdout, "\n%s\n%s", gate.Legend, o.table(rows))
	if failed > 0 {
		return fmt.Errorf("%d of %d boots failed", failed, len(rows))
	}
	return nil
}

// atMostTwice boots once more where the guest panicked or hung, and only there.
func atMostTwice(boot func() (gate.Row, error)) (gate.Row, error) {
	row, err := boot()
	var guest *machine.Error
	if errors.As(err, &guest) {
		row, err = boot()
		row.Boots = 2
	}
	return row, err
}

// table says what the rows were measured on, and shows them.
func (o *matrixOptions) table(rows []gate.Row) string {
	var only string
	if o.tests != allTests {
		only = fmt.Sprintf(", only the tests that match `%s`", o.tests)
	}
	return fmt.Sprintf("%s: Debian's kernels, emulated by qemu on %d CPUs of %s,\n%d guest CPUs, %s%s.\n\n%s",
		o.arch, runtime.NumCPU(), runtime.GOARCH, o.cpus, time.Now().UTC().Format("2 January 2006"), only, gate.Table(rows))
}

// writeMarkdown puts a table between its markers; "" only looks for them.
func (o *matrixOptions) writeMarkdown(text string) error {
	document, err := os.ReadFile(o.markdown)
	if err != nil {
		return err
	}
	spliced, err := gate.Splice(string(document), "kernels "+o.arch, text)
	if err != nil {
		return fmt.Errorf("%s: %w", o.markdown, err)
	}
	if text == "" {
		return nil
	}
	return os.WriteFile(o.markdown, []byte(spliced), 0o644)
}

// matrixRow boots one kernel in one way. The row holds what is known, also
// beside an error.
func matrixRow(ctx context.Context, m *machineFlags, lockdown, tests string, sysctls []wire.Sysctl, stdout, stderr io.Writer) (row gate.Row, err error) {
	row.Boots = 1
	shop, err := m.open(ctx, stderr)
	if err != nil {
		return row, err
	}
	defer shop.close()
	row.Kernel = shop.config.Kernel.Release
	fmt.Fprintf(stdout, "=== KERNEL %s, lockdown %s\n", row.Kernel, lockdown)
	supported, err := atLeastFloor(row.Kernel)
	if err != nil {
		return row, err
	}
	stages := []stage{refusalStage(), agentRefusalStage()}
	if supported {
		stages = []stage{lockdownStage(lockdown), checkStage(), testStage(kernelTests[0].pkg, tests, kernelTests[0].skip)}
	}
	if err := shop.buildStages(ctx, stages); err != nil {
		return row, err
	}
	results, res, err := runStages(ctx, shop, stages, sysctls, stdout, stderr)
	shop.logTimes(res)
	errs := []error{err}
	for i, s := range stages {
		r := &results[i]
		fmt.Fprintln(stdout, r.line(s.payload.Name))
		switch {
		case !r.started || !r.ended:
			if err == nil {
				errs = append(errs, fmt.Errorf("%s did not end", s.payload.Name))
			}
		case r.err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", s.payload.Name, r.err))
		}
		switch s.payload.Name {
		case "refusal":
			row.Refused = r.note
		case "check":
			row.Checked = r.passed()
		case "bpf":
			log, logErr := gate.ParseTestLog(bytes.NewReader(r.stdout.Bytes()))
			row.Passed = len(log.Passed)
			var parseErr error
			row.Findings, parseErr = gate.ParseFindings(bytes.NewReader(r.stdout.Bytes()))
			errs = append(errs, logErr, parseErr)
			if tests == allTests && r.passed() && (len(row.Programs) == 0 || len(row.Truths) == 0) {
				errs = append(errs, errors.New("the kernel tests named no program, or no truth"))
			}
		}
	}
	return row, errors.Join(errs...)
}

// lockdownStage sees to it that the machine is what the row says.
func lockdownStage(level string) stage {
	return stage{pkg: probePkg, payload: wire.Payload{
		Name: "machine", Argv: []string{probeExe, "-caps", "agent", "-lockdown", level}, Caps: capset.Agent, Sysctls: agentParanoid,
	}}
}

// checkStage is `rung check` where nothing may be missing.
func checkStage() stage {
	return stage{pkg: rungPkg, quiet: true,
		payload: wire.Payload{Name: "check", Argv: []string{rungExe, "check", "--json"}, Caps: capset.Agent, Sysctls: agentParanoid},
		judge: func(stdout []byte) (string, error) {
			missing, err := gate.Missing(stdout)
			if err != nil {
				return "", err
			}
			if len(missing) > 0 {
				return strings.Join(missing, "; "), fmt.Errorf("%d requirements are missing", len(missing))
			}
			return "ok", nil
		},
	}
}

// refusalStage is `rung check` on a kernel below the floor.
func refusalStage() stage {
	return stage{pkg: rungPkg, quiet: true, code: exitUsage,
		payload: wire.Payload{Name: "refusal", Argv: []string{rungExe, "check", "--json"}, Caps: capset.All, Sysctls: agentParanoid},
		judge: func(stdout []byte) (string, error) {
			missing, err := gate.Missing(stdout)
			if err != nil {
				return "", err
			}
			for _, text := range missing {
				if strings.HasPrefix(text, "kernel "+floor()+" or newer:") {
					return text, nil
				}
			}
			return strings.Join(missing, "; "), fmt.Errorf("the kernel's age is not among what is missing")
		},
	}
}

// agentRefusalStage is `rung agent` there, which says on standard error why it ends.
func agentRefusalStage() stage {
	return stage{pkg: rungPkg, errors: true, code: exitUsage,
		payload: wire.Payload{Name: "agent-refusal", Caps: capset.All, Sysctls: agentParanoid,
			Argv: []string{rungExe, "agent", "--listen", "unix:///tmp/rung.sock", "--target", "init=pid:1"}},
		judge: func(stderr []byte) (string, error) {
			text := strings.TrimSpace(string(stderr))
			if !strings.Contains(text, "kernel "+floor()+" or newer") {
				return text, fmt.Errorf("the agent does not name the oldest kernel it runs on")
			}
			return text, nil
		},
	}
}

// series is what the command line names: a pattern of packages, and the suites
// that have it beside the machine's own.
type series struct {
	name, pattern string
	suites        []string
}

var seriesPattern = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)

// parseKernels reads "6.1 6.12,newest".
func parseKernels(text string) ([]series, error) {
	var list []series
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		s := series{name: name, pattern: name + ".*-cloud", suites: []string{"trixie-backports"}}
		switch {
		case name == "newest":
			s.pattern = "*-cloud"
		case name == "5.10":
			s.suites = []string{"bullseye"}
		case name == "6.1" || name == "6.12":
			s.suites = nil
		case !seriesPattern.MatchString(name):
			return nil, fmt.Errorf("%q: want a series as 6.12, or newest", name)
		}
		list = append(list, s)
	}
	if list == nil {
		return nil, errors.New("want one kernel at least, as 6.12 or newest")
	}
	return list, nil
}

// atLeastFloor reads the first two numbers of a release.
func atLeastFloor(release string) (bool, error) {
	major, rest, _ := strings.Cut(release, ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	a, errMajor := strconv.Atoi(major)
	b, errMinor := strconv.Atoi(minor)
	if err := errors.Join(errMajor, errMinor); err != nil {
		return false, fmt.Errorf("kernel release %q: %w", release, err)
	}
	return a > floorMajor || a == floorMajor && b >= floorMinor, nil
}
