package symbol

// inlineTrees reads FUNCDATA_InlTree: per function an array of the calls that
// were inlined into it (runtime/symtabinl.go, the layout since Go 1.20). The
// pcdata table InlTreeIndex tells the innermost call at a pc; the instruction
// parentPc lies in the caller of that call, so its own index is the next.
type inlineTrees struct {
	gofunc uint64 // address that funcdata offsets refer to
	ok     bool
}

type inlinedCall struct {
	nameOff   uint32
	parentPc  uint32 // offset from the function's entry
	startLine int
}

// findInlineTrees takes the word of moduledata that is gofunc: the one under
// which the inline trees of the first functions make sense. Its place is the
// same in Go 1.20 to 1.26; the others are tried for versions to come.
func findInlineTrees(t *pclntab, md *moduledata) inlineTrees {
	order := []int{mdGofunc}
	for i := mdText + 2; i < mdWords; i++ {
		if i != mdGofunc {
			order = append(order, i)
		}
	}
	tried := map[uint64]bool{}
	for _, i := range order {
		trees := inlineTrees{gofunc: md[i], ok: true}
		if _, _, ok := t.im.fileOffset(trees.gofunc); !ok || tried[trees.gofunc] {
			continue
		}
		tried[trees.gofunc] = true
		if trees.plausible(t) {
			return trees
		}
	}
	return inlineTrees{}
}

// plausible checks the trees of the first functions that have one.
func (n inlineTrees) plausible(t *pclntab) bool {
	const (
		functions = 4096
		trees     = 32
	)
	seen := 0
	for i := uint32(0); i < min(t.nfunc, functions) && seen < trees; i++ {
		f, ok := t.function(i)
		if !ok {
			continue
		}
		tree, ok := n.of(t, f)
		if !ok {
			continue
		}
		seen++
		if call, ok := n.call(t, f, tree, 0); !ok {
			return false
		} else if _, ok := t.name(call.nameOff); !ok {
			return false
		}
	}
	return seen > 0
}

// tree is the place of one function's inline tree.
type tree struct {
	indexes uint32 // pcdata table
	off     uint64 // file offset of the calls
	left    uint64 // bytes of the segment from there
}

// of returns the inline tree of f, false if nothing was inlined into it.
func (n inlineTrees) of(t *pclntab, f *function) (tree, bool) {
	if !n.ok || f.npcdata <= pcdataInlTree || f.nfuncdata <= funcdataInl {
		return tree{}, false
	}
	var pc, fd [4]byte
	if t.im.read(pc[:], int64(f.arrays)+4*pcdataInlTree) != nil ||
		t.im.read(fd[:], int64(f.arrays)+4*int64(f.npcdata)+4*funcdataInl) != nil {
		return tree{}, false
	}
	indexes, data := le.Uint32(pc[:]), le.Uint32(fd[:])
	if indexes == 0 || data == noFuncdata {
		return tree{}, false
	}
	off, left, ok := t.im.fileOffset(n.gofunc + uint64(data))
	if !ok {
		// Reported by call: such a tree is broken, not absent.
		off, left = 0, 0
	}
	return tree{indexes: indexes, off: off, left: left}, true
}

// call reads entry i of a tree.
func (n inlineTrees) call(t *pclntab, f *function, tr tree, i uint32) (inlinedCall, bool) {
	var b [inlinedBytes]byte
	if (uint64(i)+1)*inlinedBytes > tr.left || t.im.read(b[:], int64(tr.off)+inlinedBytes*int64(i)) != nil {
		return inlinedCall{}, false
	}
	c := inlinedCall{
		nameOff:   le.Uint32(b[4:]),
		parentPc:  le.Uint32(b[8:]),
		startLine: int(int32(le.Uint32(b[12:]))),
	}
	return c, c.parentPc < f.endOff-f.entryOff && b[1] == 0 && b[2] == 0 && b[3] == 0
}

// lines returns the functions at an address, innermost first, false where the
// table has none. whole is false where inlined frames may be missing.
func (t *pclntab) lines(addr uint64) (lines []Line, whole, ok bool) {
	t.steps = maxSteps
	f, ok := t.find(addr)
	if !ok {
		return nil, false, false
	}
	name, ok := t.name(f.nameOff)
	if !ok {
		return nil, false, false
	}
	pcOff := addr - t.text
	physical := func() Line {
		file, line := t.source(f, pcOff)
		return goLine(name, file, line, f.startLine)
	}
	if !t.inline.ok {
		return []Line{physical()}, false, true
	}
	tr, ok := t.inline.of(t, f)
	if !ok {
		return []Line{physical()}, true, true
	}
	last := int32(1<<31 - 1)
	for len(lines) < maxInlined {
		i := t.value(f, tr.indexes, pcOff)
		if i < 0 {
			return append(lines, physical()), true, true
		}
		call, ok := t.inline.call(t, f, tr, uint32(i))
		inlined, ok2 := t.name(call.nameOff)
		// A caller's entry precedes its callee's. Some functions break this:
		// where the compiler dropped the instruction of the call, parentPc is 0.
		if !ok || !ok2 || i >= last {
			break
		}
		last = i
		file, line := t.source(f, pcOff)
		lines = append(lines, goLine(inlined, file, line, call.startLine))
		pcOff = uint64(f.entryOff) + uint64(call.parentPc)
	}
	// What lies between is unknown; the physical function is certain.
	pcOff = uint64(f.entryOff)
	return append(lines, physical()), false, true
}
