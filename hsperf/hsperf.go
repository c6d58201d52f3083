// Package hsperf reads the counters that a HotSpot JVM keeps in a file of shared
// memory, hsperfdata_USER/PID in its temporary directory: heap in use, collections,
// safepoints, compilations. Reading them costs the JVM nothing and works however
// busy it is, or stopped.
//
// The package is pure: it parses bytes. They are another process's: all offsets
// and counts are checked, and nothing is larger than the file.
package hsperf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
)

// MaxBytes bounds a file; a JVM's own has 32 KiB.
const MaxBytes = 4 << 20

// Counters are a file's values by name: numbers, and texts without their zero bytes.
type Counters struct {
	Numbers map[string]int64
	Texts   map[string]string
}

// The file's head, as JDK 7 and newer write version 2.0: magic (big-endian), byte
// order (0 big, 1 little), major, minor, accessible, used, overflow, modification
// time, offset and number of the entries. An entry has its length, the offset of
// its name, the length of a vector (0: a scalar), type, flags, unit, variability,
// and the offset of its value, offsets counted from the entry.
const (
	magic     = 0xcafec0c0
	headBytes = 32
	rowBytes  = 20
)

// ErrNotReady is of a file that its JVM has not filled in yet.
var ErrNotReady = errors.New("the JVM has not filled in its counters yet")

// Parse reads a whole file. An entry of a type that is not known is left out; a
// damaged file is an error.
func Parse(data []byte) (Counters, error) {
	c := Counters{Numbers: map[string]int64{}, Texts: map[string]string{}}
	if len(data) > MaxBytes {
		return c, fmt.Errorf("%d bytes; want at most %d", len(data), MaxBytes)
	}
	if len(data) < headBytes || binary.BigEndian.Uint32(data) != magic {
		return c, errors.New("no counters of a HotSpot JVM: the file does not begin as they do")
	}
	var order binary.ByteOrder = binary.BigEndian
	if data[4] == 1 {
		order = binary.LittleEndian
	}
	if major := data[5]; major != 2 {
		return c, fmt.Errorf("counters of version %d; this reads version 2", major)
	}
	if data[7] == 0 {
		return c, ErrNotReady
	}
	at, n := uint64(order.Uint32(data[24:])), order.Uint32(data[28:])
	for i := range n {
		if at+rowBytes > uint64(len(data)) {
			return c, fmt.Errorf("entry %d of %d lies outside of the file's %d bytes", i, n, len(data))
		}
		length := uint64(order.Uint32(data[at:]))
		if length < rowBytes || at+length > uint64(len(data)) {
			return c, fmt.Errorf("entry %d of %d at %d: its length is %d in a file of %d bytes", i, n, at, length, len(data))
		}
		if err := c.entry(data[at:at+length], order); err != nil {
			return c, fmt.Errorf("entry %d of %d at %d: %w", i, n, at, err)
		}
		at += length
	}
	return c, nil
}

func (c *Counters) entry(row []byte, order binary.ByteOrder) error {
	name, value := order.Uint32(row[4:]), order.Uint32(row[16:])
	vector, kind := order.Uint32(row[8:]), row[12]
	if uint64(name) >= uint64(len(row)) || uint64(value) > uint64(len(row)) {
		return errors.New("its name or value lies outside of it")
	}
	text, _, ok := bytes.Cut(row[name:], []byte{0})
	if !ok {
		return errors.New("its name has no end")
	}
	rest := row[value:]
	switch {
	case kind == 'J' && vector == 0:
		if len(rest) < 8 {
			return errors.New("its value lies outside of it")
		}
		c.Numbers[string(text)] = int64(order.Uint64(rest))
	case kind == 'B' && vector > 0:
		if uint64(vector) > uint64(len(rest)) {
			return errors.New("its text lies outside of it")
		}
		value, _, _ := bytes.Cut(rest[:vector], []byte{0})
		c.Texts[string(text)] = strings.ToValidUTF8(string(value), "�")
	}
	return nil
}

var (
	spaceUsed     = regexp.MustCompile(`^sun\.gc\.generation\.\d+\.space\.\d+\.used$`)
	collectorTime = regexp.MustCompile(`^sun\.gc\.collector\.\d+\.time$`)
	collections   = regexp.MustCompile(`^sun\.gc\.collector\.\d+\.invocations$`)
)

// sum adds the counters whose names match; ok is false of none, of a negative one,
// and of a sum that no counter can hold.
func (c Counters) sum(names *regexp.Regexp) (total int64, ok bool) {
	for name, v := range c.Numbers {
		if !names.MatchString(name) {
			continue
		}
		if v < 0 || total > math.MaxInt64-v {
			return 0, false
		}
		total, ok = total+v, true
	}
	return total, ok
}

// HeapUsedBytes is the heap in use, over all generations; collectors bring it up to
// date when they have run.
func (c Counters) HeapUsedBytes() (int64, bool) { return c.sum(spaceUsed) }

// GCs is how many collections there were, of all collectors.
func (c Counters) GCs() (int64, bool) { return c.sum(collections) }

// GCNs is the time that collections took, which is not CPU time.
func (c Counters) GCNs() (int64, bool) {
	ticks, ok := c.sum(collectorTime)
	return c.ns(ticks, ok)
}

// SafepointNs is how long threads were stopped at safepoints, collections
// included. JVMs count it unless told not to.
func (c Counters) SafepointNs() (int64, bool) {
	ticks, ok := c.Numbers["sun.rt.safepointTime"]
	return c.ns(ticks, ok)
}

// JITNs is the time that compilations took, over all compiler threads, which is
// not CPU time.
func (c Counters) JITNs() (int64, bool) {
	ticks, ok := c.Numbers["java.ci.totalTime"]
	return c.ns(ticks, ok)
}

// ns converts the JVM's ticks.
func (c Counters) ns(ticks int64, ok bool) (int64, bool) {
	hz := c.Numbers["sun.os.hrt.frequency"]
	if !ok || ticks < 0 || hz <= 0 {
		return 0, false
	}
	ns := float64(ticks) / float64(hz) * 1e9
	if ns > math.MaxInt64/2 {
		return 0, false
	}
	return int64(ns), true
}
