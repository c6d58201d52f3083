// Package symbol answers which functions an address of a running process lies
// in, inlined ones included: from Go's own tables, which even stripped
// binaries carry, else from ELF symbols. It does not walk stacks, and it does
// not read debug information.
//
// Targets are hostile input. Their files are opened inside their own root,
// regular files only; every count and length read from them has a hard limit;
// a table that contradicts itself costs names, never a panic.
package symbol

import (
	"errors"
	"fmt"
	"sync"
)

// KernelNamer names kernel addresses; *bpf.Profiler is one. The offset is that
// of addr within the function, in bytes.
type KernelNamer interface {
	KernelName(addr uint64) (name string, offset uint64, err error)
}

// Mapping identifies the file that code came from. Equal values are the same
// file, so Mapping serves as a map key.
type Mapping struct {
	File       string // path as the target sees it, or "[vdso]", "[anon]", "[unmapped]"
	BuildID    string // GNU build id in hex, "" where there is none
	Dev, Inode uint64 // 0 for mappings without a file
}

// Line is one function at an address.
type Line struct {
	Function  string // readable: demangled, Go's type arguments as [...]
	Linkage   string // as the file has it; equal to Function for most Go functions
	File      string // source path, "" where unknown
	Line      int    // in File, 0 where unknown
	StartLine int    // first line of the function, 0 where unknown
}

// Location is what is known about an address. Lines is never empty; the first
// is the innermost inlined function, the last the physical one.
type Location struct {
	Mapping Mapping
	// Address is the virtual address within the file, before relocation; for
	// anonymous memory the offset into its mapping.
	Address uint64
	Lines   []Line
	Loss    Loss
}

// Loss says why a Location has no name, or no inlined frames.
type Loss uint8

// What can be lost.
const (
	Named           Loss = iota // nothing lost
	UnknownMapping              // no mapping holds the address: a process that exited, or memory mapped or unmapped since
	AnonymousMemory             // code without a file, such as a JIT's
	UnreadableFile              // cannot be opened, or is not an ELF file of a known kind
	StaleFile                   // the path now holds another file than the one mapped
	NoSymbol                    // the file has no function there
	NoInlining                  // named, but inlined frames could not be read
	numLosses
)

var lossNames = [numLosses]string{
	"named", "unknown mapping", "anonymous memory", "unreadable file",
	"stale file", "no symbol", "no inlining",
}

func (l Loss) String() string {
	if int(l) < len(lossNames) {
		return lossNames[l]
	}
	return fmt.Sprintf("Loss(%d)", uint8(l))
}

// Losses counts lookups by their Loss since New.
type Losses [numLosses]uint64

// Options configure a Symbolizer. Zero fields take their defaults.
type Options struct {
	ProcRoot string // mount point of procfs, default "/proc"
	// MaxFiles bounds the files held open, and MaxBytes the memory their
	// tables take; the least recently used go first. Defaults 128, 256 MiB.
	MaxFiles int
	MaxBytes int64
	// MaxProcesses bounds the processes whose last mappings are remembered
	// for naming addresses after they exit. Default 1024.
	MaxProcesses int
}

func (o Options) withDefaults() Options {
	if o.ProcRoot == "" {
		o.ProcRoot = "/proc"
	}
	if o.MaxFiles <= 0 {
		o.MaxFiles = 128
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 256 << 20
	}
	if o.MaxProcesses <= 0 {
		o.MaxProcesses = 1024
	}
	return o
}

// Symbolizer names user addresses. It is safe for concurrent use; lookups are
// serialised. Reading other users' processes needs CAP_SYS_PTRACE and
// CAP_DAC_READ_SEARCH; CAP_CHECKPOINT_RESTORE lets it read files that were
// deleted or replaced while mapped.
type Symbolizer struct {
	opts Options

	mu     sync.Mutex
	files  *fileCache
	procs  map[uint32]*Process
	tick   uint64 // orders uses of procs
	losses Losses
	closed bool
}

// New returns a Symbolizer that has read nothing yet.
func New(o Options) *Symbolizer {
	o = o.withDefaults()
	return &Symbolizer{
		opts:  o,
		files: newFileCache(o.MaxFiles, o.MaxBytes),
		procs: map[uint32]*Process{},
	}
}

// maxMappingBytes bounds the memory of all remembered mappings.
const maxMappingBytes = 64 << 20

// ErrClosed is returned after Close.
var ErrClosed = errors.New("symbolizer is closed")

// Process reads the mappings of process pid as they are now. Call it once per
// window: a Process does not follow later changes. When the process is gone,
// the mappings of the last call for it are returned, with Process.Gone set; an
// error means that there are none.
func (s *Symbolizer) Process(pid uint32) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	s.tick++
	last := s.procs[pid]
	maps, err := readMaps(s.opts.ProcRoot, pid)
	if err != nil {
		if last == nil {
			return nil, err
		}
		last.gone = true
		last.used = s.tick
		return last, nil
	}
	p := newProcess(s, pid, maps)
	p.used = s.tick
	p.inherit(last)
	s.procs[pid] = p
	s.forget(pid)
	return p, nil
}

// Remember reads the mappings of process pid as Process does, and opens their
// files, so that addresses can be named when the process is gone. It may be called
// again and again while the process runs. The error of a process that is gone
// leaves what is known of it.
func (s *Symbolizer) Remember(pid uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	maps, err := readMaps(s.opts.ProcRoot, pid)
	if err != nil {
		return err
	}
	s.tick++
	p := newProcess(s, pid, maps)
	p.used = s.tick
	p.inherit(s.procs[pid])
	p.hold()
	s.procs[pid] = p
	s.forget(pid)
	return nil
}

// forget drops the processes that were asked for longest ago until the bounds
// hold, keeping that of pid.
func (s *Symbolizer) forget(pid uint32) {
	for {
		total, oldest := 0, pid
		for other, p := range s.procs {
			total += p.weight
			if p.used < s.procs[oldest].used {
				oldest = other
			}
		}
		if oldest == pid || len(s.procs) <= s.opts.MaxProcesses && total <= maxMappingBytes {
			return
		}
		delete(s.procs, oldest)
	}
}

// Losses returns the counts so far.
func (s *Symbolizer) Losses() Losses {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.losses
}

// Close releases all files. Locations already returned stay valid.
func (s *Symbolizer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.procs = map[uint32]*Process{}
	return s.files.close()
}
