package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Reading is what the CPU counters said between two stamps.
type Reading struct {
	CPU CPUStat
	// Stamps of the clock given to [Open], just before and just after the
	// files were read. Parsing lies outside.
	BeginNs, EndNs uint64
	// Gone: the group was removed, so nothing could be read.
	Gone bool
}

// Reader reads one group's counters at the edges of a window. Its files stay
// open, so that a reading takes some microseconds: a tenth of what
// containerd/cgroups needs, which opens files and fills maps (BenchmarkRead).
// Not safe for concurrent use.
type Reader struct {
	roots    Roots
	group    string
	now      func() uint64
	files    []*counterFile
	v1cpu    *place // where quota and throttling are, nil if on v2 or nowhere
	sources  []string
	warnings []string
}

// counterFile is one open file and how its text adds to a CPUStat.
type counterFile struct {
	*os.File
	source string // for people
	text   [4 << 10]byte
	n      int
	err    error
	parse  func([]byte, *CPUStat) error
}

// Open prepares the reading of a v2 group (on a v1 host: of the groups of that
// path) with a clock that stamps it. It fails only where no CPU counter can be
// read at all; anything less is an absent figure and a warning.
func Open(roots Roots, group string, now func() uint64) (*Reader, error) {
	if err := CheckPath(group); err != nil {
		return nil, err
	}
	r := &Reader{roots: roots, group: group, now: now}
	var throttling bool
	var err error
	if roots.V2 != "" {
		throttling, err = r.openV2()
	} else {
		err = r.openCpuacct()
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	if !throttling {
		r.openV1CPU()
	}
	return r, nil
}

// openV2 answers whether the group's cpu.stat counts throttling.
func (r *Reader) openV2() (throttling bool, err error) {
	if err := r.open("cgroup2 cpu.stat", filepath.Join(r.roots.Dir(r.group), "cpu.stat"), func(text []byte, into *CPUStat) error {
		stat, err := parseCPUStat(text)
		into.UsageUsec, into.UserUsec, into.SystemUsec = stat.UsageUsec, stat.UserUsec, stat.SystemUsec
		if stat.NrPeriods.OK {
			into.NrPeriods, into.NrThrottled, into.ThrottledUsec = stat.NrPeriods, stat.NrThrottled, stat.ThrottledUsec
		}
		return err
	}); err != nil {
		return false, fmt.Errorf("cgroup %q: %w", r.group, err)
	}
	first := r.Read().CPU
	if !first.UsageUsec.OK && len(r.warnings) == 0 {
		r.warn("%s: no usage_usec", r.files[0].Name())
	}
	unread := !first.UsageUsec.OK && r.roots.V1["cpu"] == "" // and said so: nothing to add about throttling
	return first.NrPeriods.OK || unread, nil
}

func (r *Reader) openCpuacct() error {
	at, err := r.roots.locate("cpuacct", r.group)
	if err != nil {
		return fmt.Errorf("cgroup %q: %w", r.group, err)
	}
	for _, file := range []struct {
		name  string
		field func(*CPUStat) *Figure
	}{
		{"cpuacct.usage", func(s *CPUStat) *Figure { return &s.UsageUsec }},
		{"cpuacct.usage_user", func(s *CPUStat) *Figure { return &s.UserUsec }},
		{"cpuacct.usage_sys", func(s *CPUStat) *Figure { return &s.SystemUsec }},
	} {
		err := r.open("v1 "+file.name, filepath.Join(at.dir, file.name), func(text []byte, into *CPUStat) error {
			ns, err := parseUint(text)
			if err == nil {
				*file.field(into) = Known(ns / 1000)
			}
			return err
		})
		if err != nil && file.name == "cpuacct.usage" {
			return fmt.Errorf("cgroup %q: %w", r.group, err)
		}
		if err != nil {
			r.warn("%v", err)
		}
	}
	return nil
}

// openV1CPU looks for quota and throttling in v1; without them it warns.
func (r *Reader) openV1CPU() {
	if r.roots.V1["cpu"] == "" {
		if r.group != "/" {
			r.warn("%s counts no periods: the cpu controller is not enabled for this group; enable it: echo +cpu > %s",
				filepath.Join(r.roots.Dir(r.group), "cpu.stat"), filepath.Join(r.roots.Dir(filepath.Dir(r.group)), "cgroup.subtree_control"))
		}
		return
	}
	at, err := r.roots.locate("cpu", r.group)
	if err != nil {
		r.warn("no throttling and no quota: %v", err)
		return
	}
	if at.shared {
		r.warn("throttling and quota are those of v1 cpu:%s, in which other processes run too", at.group)
	}
	r.v1cpu = &at
	if err := r.open("v1 cpu.stat", filepath.Join(at.dir, "cpu.stat"), func(text []byte, into *CPUStat) error {
		stat, err := parseCPUStat(text)
		into.NrPeriods, into.NrThrottled, into.ThrottledUsec = stat.NrPeriods, stat.NrThrottled, stat.ThrottledUsec
		return err
	}); err != nil {
		r.warn("no throttling: %v", err)
	}
}

func (r *Reader) open(source, path string, parse func([]byte, *CPUStat) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	r.files = append(r.files, &counterFile{File: file, source: source, parse: parse})
	r.sources = append(r.sources, source)
	return nil
}

// Read reads the CPU counters now.
func (r *Reader) Read() Reading {
	var reading Reading
	reading.BeginNs = r.now()
	for _, file := range r.files {
		file.n, file.err = syscall.Pread(int(file.Fd()), file.text[:], 0)
	}
	reading.EndNs = r.now()
	for _, file := range r.files {
		err := file.err
		if err == nil && file.n == len(file.text) {
			err = errors.New("longer than any such file")
		}
		if err == nil {
			err = file.parse(file.text[:file.n], &reading.CPU)
		}
		if err != nil {
			reading.Gone = reading.Gone || vanished(err)
			r.warn("read %s: %v", file.Name(), err)
		}
	}
	return reading
}

// Sources names the kinds of file that are read.
func (r *Reader) Sources() []string { return slices.Clone(r.sources) }

// Warnings says what is absent and why, so far, each once.
func (r *Reader) Warnings() []string { return slices.Clone(r.warnings) }

// Close closes the files.
func (r *Reader) Close() error {
	var errs []error
	for _, file := range r.files {
		errs = append(errs, file.Close())
	}
	r.files = nil
	return errors.Join(errs...)
}

func (r *Reader) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.warnings, text) {
		r.warnings = append(r.warnings, text)
	}
}

func (r *Reader) source(name string) {
	if !slices.Contains(r.sources, name) {
		r.sources = append(r.sources, name)
	}
}

func readable(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return file.Close()
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
