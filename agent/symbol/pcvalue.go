package symbol

// source returns the file and line at pcOff, relative to text, "" and 0 where
// the table does not tell.
func (t *pclntab) source(f *function, pcOff uint64) (file string, line int) {
	fileNo := t.value(f, f.pcfile, pcOff)
	lineNo := t.value(f, f.pcln, pcOff)
	if fileNo < 0 || lineNo < 0 {
		return "", 0
	}
	index := 4 * (uint64(f.cuOff) + uint64(fileNo))
	var b [4]byte
	if index+4 > t.cus.size || t.im.read(b[:], int64(t.cus.off+index)) != nil {
		return "", 0
	}
	file, ok := t.im.stringAt(t.files.off, t.files.size, uint64(le.Uint32(b[:])), 4096)
	if !ok {
		return "", 0
	}
	return file, int(lineNo)
}

// value looks pcOff up in the pc-value table at off, -1 where it has no value.
// The table is a run of (value delta zigzag, pc delta) varints; runtime.pcvalue.
func (t *pclntab) value(f *function, off uint32, pcOff uint64) int32 {
	if off == 0 || uint64(off) >= t.pcs.size {
		return -1
	}
	c := cursor{im: t.im, off: t.pcs.off + uint64(off), left: t.pcs.size - uint64(off)}
	val, pc := int32(-1), uint64(f.entryOff)
	for i := 0; t.steps > 0; i++ {
		t.steps--
		delta := c.uvarint()
		if delta == 0 && i > 0 {
			break
		}
		val += int32(-(delta & 1) ^ (delta >> 1))
		pc += uint64(c.uvarint()) * t.quantum
		if c.failed {
			break
		}
		if pcOff < pc {
			return val
		}
	}
	return -1
}

// cursor reads bytes in order.
type cursor struct {
	im        *image
	off, left uint64
	buf       []byte
	failed    bool
}

func (c *cursor) uvarint() uint32 {
	var v, shift uint32
	for range 5 {
		if len(c.buf) == 0 {
			b, err := c.im.from(int64(c.off))
			if err != nil || c.left == 0 {
				c.failed = true
				return 0
			}
			c.buf = b[:min(c.left, uint64(len(b)))]
			c.off += uint64(len(c.buf))
			c.left -= uint64(len(c.buf))
		}
		b := c.buf[0]
		c.buf = c.buf[1:]
		v |= uint32(b&0x7f) << shift
		if b&0x80 == 0 {
			return v
		}
		shift += 7
	}
	c.failed = true
	return 0
}
