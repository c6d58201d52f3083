//go:build linux

package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// Options select what Run does.
type Options struct {
	// Short: less work per case and without the largest, below 90 s on two shared
	// cores; the full form takes below 8 minutes.
	Short bool
	// Only runs the cases whose name matches; nil: all.
	Only *regexp.Regexp
	// Each, if set, is called with every figure as soon as its case is over.
	Each func(Figure)
}

// testCase is one workload with its truth.
type testCase struct {
	name string
	full bool // in the full form only
	run  func(*attempt) error
}

// Names lists the cases in the order in which they run.
func Names() (names []string) {
	for _, c := range cases() {
		names = append(names, c.name)
	}
	return names
}

// Run runs the selected cases and gives their figures. A figure out of its bounds
// is no error: its OK is false. A case out of bounds runs once more, since the
// machine may be shared, and the kernel may have kept an event from the account:
// then the second figures count, and their Detail says what the first were.
//
// The calling program must call Workload first thing in main. Run is not to be
// called twice at the same time: cases would disturb each other.
func Run(ctx context.Context, o Options) (figures []Figure, err error) {
	host, err := lookAtHost()
	if err != nil {
		return nil, err
	}
	selected, err := selectCases(cases(), o)
	if err != nil {
		return nil, err
	}
	p, err := bpf.Load(bpf.Options{RateHz: 99})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	dir, err := diskDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	room, leave, err := host.makeRoom()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, leave()) }()
	// Workloads die with the thread that starts them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, c := range selected {
		got, err := tryCase(ctx, c, attempt{ctx: ctx, p: p, host: host, short: o.Short, dir: dir, room: room})
		if err != nil {
			return figures, fmt.Errorf("case %s: %w", c.name, err)
		}
		if o.Each != nil {
			for _, f := range got {
				o.Each(f)
			}
		}
		figures = append(figures, got...)
	}
	return figures, nil
}

func selectCases(all []testCase, o Options) (selected []testCase, err error) {
	for _, c := range all {
		if (c.full && o.Short) || (o.Only != nil && !o.Only.MatchString(c.name)) {
			continue
		}
		selected = append(selected, c)
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("no case matches %v; there are: %s", o.Only, strings.Join(Names(), " "))
	}
	return selected, nil
}

// tryCase runs a case, and once more where its figures are out of bounds or an
// edge came late.
func tryCase(ctx context.Context, c testCase, fresh attempt) ([]Figure, error) {
	var first []Figure
	for try, late := 0, 0; try < 2; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		a := fresh
		a.second = try == 1
		err := c.run(&a)
		for i := range a.undo {
			err = errors.Join(err, a.undo[len(a.undo)-1-i]())
		}
		if errors.Is(err, errLate) && late < maxLate {
			late++ // it has measured nothing
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(a.figures) == 0 {
			return nil, errors.New("it has no figure")
		}
		for i := range a.figures {
			f := &a.figures[i]
			f.Case, f.Name = c.name, c.name+": "+f.What
		}
		if try == 1 {
			return withFirst(a.figures, first), nil
		}
		if allOK(a.figures) {
			return a.figures, nil
		}
		first = a.figures
		try++
	}
	panic("not reached: the second try returns")
}

// maxLate is how often a case begins anew because an edge was set too late.
const maxLate = 5

func allOK(figures []Figure) bool {
	for _, f := range figures {
		if !f.OK {
			return false
		}
	}
	return true
}

// withFirst says in the figures of a second try what the first one's were, where
// they were out of bounds.
func withFirst(second, first []Figure) []Figure {
	for _, f := range first {
		if f.OK {
			continue
		}
		for i := range second {
			if s := &second[i]; s.What == f.What {
				s.Detail = join(s.Detail, fmt.Sprintf("second try; first: error %s %s, bound %s…%s, %s",
					signed(f.Value), f.Unit, signed(f.Low), signed(f.High), f.Detail))
			}
		}
	}
	return second
}

// diskDir makes a directory on a file system that is not memory.
func diskDir() (string, error) {
	var tried []string
	work, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, parent := range []string{os.TempDir(), "/var/tmp", work} {
		var st unix.Statfs_t
		if err := unix.Statfs(parent, &st); err != nil || st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC {
			tried = append(tried, parent)
			continue
		}
		dir, err := os.MkdirTemp(parent, "rung-truth-")
		if err != nil {
			tried = append(tried, parent)
			continue
		}
		return dir, nil
	}
	return "", fmt.Errorf("no writable directory on a disk among %s: set TMPDIR to one", strings.Join(tried, ", "))
}
