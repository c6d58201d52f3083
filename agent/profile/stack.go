package profile

import (
	"fmt"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/agent/syscalls"
	"github.com/rungprof/rung/bpf"
)

// stackKey is what the names of a stack, and its losses, depend on.
type stackKey struct {
	hash     uint64
	tgid     uint32
	syscall  int32
	inKernel bool
	drawn    bool
}

type namedStack struct {
	locs   []*profile.Location // shared: not to be changed
	losses Losses              // of one sample
}

// stack names the frames of a sample, leaf first, and counts its losses. Each
// stack of a process is named once.
func (b *builder) stack(s bpf.Sample) []*profile.Location {
	key := stackKey{s.StackHash, s.Tgid, s.Syscall, s.InKernel, b.drawn}
	count := s.Count
	named, ok := b.stacks[key]
	if !ok {
		losses := b.losses
		b.losses = &named.losses
		s.Count, s.Tid, s.Block = 1, 0, 0
		named.locs = b.nameStack(s)
		b.losses = losses
		b.stacks[key] = named
	}
	b.losses.add(&named.losses, count)
	return named.locs
}

func (b *builder) nameStack(s bpf.Sample) []*profile.Location {
	st, ok := bpf.Stack{}, false
	if s.StackHash != 0 {
		st, ok = b.in.Stack(s.StackHash)
	}
	if !ok {
		b.losses.LostStack += s.Count
		return []*profile.Location{b.table.pseudo(RungMapping, LostStack)}
	}

	var kernel, user []uint64 // leaf first
	truncated := st.KernelTruncated || st.UserTruncated
	for _, f := range st.Frames {
		switch f.Kind {
		case bpf.FrameKernel:
			kernel = append(kernel, f.Value)
		case bpf.FrameNative:
			user = append(user, f.Value)
		case bpf.FrameError: // the walk ended early
			truncated = true
		}
	}
	var locs []*profile.Location
	inKernel := s.InKernel || len(kernel) > 0
	if inKernel {
		locs = b.kernelPart(s, kernel)
	}
	locs = append(locs, b.userPart(s, user, inKernel)...)
	if len(user) == 0 {
		b.losses.MissingStack += s.Count
		locs = append(locs, b.table.pseudo(RungMapping, MissingStack))
	}
	if truncated {
		b.losses.Truncated += s.Count
		locs = append(locs, b.table.pseudo(RungMapping, Truncated))
	}
	return locs
}

// userPart names user frames. A caller's frame holds the address it returns
// to, which may already belong to the next statement or function: it is looked
// up one byte before. So is the address after a system call instruction. Where
// the thread was interrupted or faulted, the address is that of the
// instruction itself.
func (b *builder) userPart(s bpf.Sample, addrs []uint64, inKernel bool) []*profile.Location {
	if len(addrs) == 0 {
		return nil
	}
	p := b.process(s.Tgid)
	if p == nil {
		b.losses.NoProcess += s.Count
	}
	var locs []*profile.Location
	var lost symbol.Losses
	for i, addr := range addrs {
		exact := i == 0 && !(inKernel && s.Syscall >= 0)
		if !exact && addr > 0 {
			addr--
		}
		loc := symbol.Location{
			Mapping: symbol.Mapping{File: "[unmapped]"}, Address: addr, Loss: symbol.UnknownMapping,
			Lines: []symbol.Line{{Function: fmt.Sprintf("[unknown] [unmapped]+%#x", addr)}},
		}
		if p != nil {
			loc = p.Lookup(addr)
		}
		lost[loc.Loss] = s.Count
		locs = append(locs, b.table.user(loc))
	}
	lost[symbol.Named] = 0
	for i, n := range lost {
		b.losses.User[i] += n
	}
	return locs
}

// kernelPart names kernel frames and puts the pseudo-frames between them.
func (b *builder) kernelPart(s bpf.Sample, addrs []uint64) []*profile.Location {
	names := make([]string, len(addrs)) // leaf first
	unnamed := false
	for i, addr := range addrs {
		if i > 0 && addr > 0 {
			addr-- // a return address, as in userPart
		}
		names[i] = b.kernelName(addr)
	}
	if b.drawn {
		names = names[trimOwn(names):]
	}
	for _, name := range names {
		unnamed = unnamed || name == UnknownKernel
	}
	if unnamed {
		b.losses.UnnamedKernel += s.Count
	}
	entry, interrupt := classify(names)
	if s.Syscall >= 0 {
		entry = "syscall:" + syscalls.NameFor(b.in.Arch, s.Syscall)
	}
	var locs []*profile.Location
	for i, name := range names {
		locs = append(locs, b.table.kernel(name))
		if i == interrupt && entry != entryInterrupt {
			locs = append(locs, b.table.pseudo(EntryMapping, entryInterrupt))
		}
	}
	return append(locs, b.table.pseudo(EntryMapping, entry))
}

func (b *builder) kernelName(addr uint64) string {
	name, ok := b.kernel[addr]
	if !ok {
		var err error
		if b.in.Kernel == nil {
			name = UnknownKernel
		} else if name, _, err = b.in.Kernel.KernelName(addr); err != nil || name == "" || strings.HasPrefix(name, "0x") {
			name = UnknownKernel // %pS prints the number where it has no name
		} else {
			name = symbol.Printable(name)
		}
		b.kernel[addr] = name
	}
	return name
}
