package hsperf

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// file makes a file of entries in the JVM's form.
func file(order binary.AppendByteOrder, entries ...[]byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, magic)
	little := byte(0)
	if order == binary.AppendByteOrder(binary.LittleEndian) {
		little = 1
	}
	head = append(head, little, 2, 0, 1)
	for range 2 {
		head = order.AppendUint32(head, 0)
	}
	head = order.AppendUint64(head, 0)
	head = order.AppendUint32(order.AppendUint32(head, headBytes), uint32(len(entries)))
	return append(head, slices.Concat(entries...)...)
}

func entry(order binary.AppendByteOrder, name string, kind byte, vector int, value []byte) []byte {
	text := append([]byte(name), 0)
	for (rowBytes+len(text))%8 != 0 {
		text = append(text, 0)
	}
	row := order.AppendUint32(nil, uint32(rowBytes+len(text)+len(value)))
	row = order.AppendUint32(row, rowBytes)
	row = order.AppendUint32(row, uint32(vector))
	row = append(row, kind, 0, 1, 1)
	row = order.AppendUint32(row, uint32(rowBytes+len(text)))
	return append(append(row, text...), value...)
}

func number(order binary.AppendByteOrder, name string, v int64) []byte {
	return entry(order, name, 'J', 0, order.AppendUint64(nil, uint64(v)))
}

func sample(order binary.AppendByteOrder) []byte {
	return file(order,
		number(order, "sun.os.hrt.frequency", 1e6), number(order, "java.ci.totalTime", 2_500_000), number(order, "sun.rt.safepointTime", 1000),
		number(order, "sun.gc.collector.0.time", 7), number(order, "sun.gc.collector.1.time", 3),
		number(order, "sun.gc.collector.0.invocations", 4), number(order, "sun.gc.collector.1.invocations", 1),
		number(order, "sun.gc.generation.0.space.0.used", 100), number(order, "sun.gc.generation.1.space.0.used", 23), number(order, "sun.gc.generation.0.space.0.capacity", 999),
		entry(order, "java.property.java.vm.name", 'B', 8, []byte("Hot\x00Spot")), entry(order, "odd", 'Z', 0, nil))
}

func TestParse(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		c, err := Parse(sample(order))
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range map[string]struct {
			of   func() (int64, bool)
			want int64
		}{
			"heap": {c.HeapUsedBytes, 123}, "collections": {c.GCs, 5}, "collecting": {c.GCNs, 10_000},
			"safepoints": {c.SafepointNs, 1e6}, "compiling": {c.JITNs, 2.5e9},
		} {
			if v, ok := f.of(); !ok || v != f.want {
				t.Errorf("%s: %d, %v; want %d", name, v, ok, f.want)
			}
		}
		if c.Texts["java.property.java.vm.name"] != "Hot" || len(c.Numbers) != 10 {
			t.Errorf("%+v", c)
		}
	}
	none := Counters{Numbers: map[string]int64{"java.ci.totalTime": 5}}
	if _, ok := none.JITNs(); ok {
		t.Error("ticks without their length are a time")
	}
	if _, ok := none.HeapUsedBytes(); ok {
		t.Error("a heap of no space")
	}
}

func TestDamaged(t *testing.T) {
	little := binary.LittleEndian
	good := sample(little)
	for want, change := range map[string]func([]byte) []byte{
		"does not begin":      func(b []byte) []byte { b[0] = 0; return b },
		"no counters":         func(b []byte) []byte { return b[:headBytes-1] },
		"version 9":           func(b []byte) []byte { b[5] = 9; return b },
		ErrNotReady.Error():   func(b []byte) []byte { b[7] = 0; return b },
		"outside of the file": func(b []byte) []byte { little.PutUint32(b[24:], 1<<31); return b },
		"its length is 3":     func(b []byte) []byte { little.PutUint32(b[headBytes:], 3); return b },
		"its name or value":   func(b []byte) []byte { little.PutUint32(b[headBytes+4:], 1<<31); return b },
		"its value lies":      func(b []byte) []byte { little.PutUint32(b[headBytes+16:], little.Uint32(b[headBytes:])-7); return b },
		"bytes; want at most": func([]byte) []byte { return make([]byte, MaxBytes+1) },
		"entry 12 of ":        func(b []byte) []byte { b[31] = 1; return b },
	} {
		got, err := Parse(change(slices.Clone(good)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want %q", got, err, want)
		}
	}
	if _, err := Parse(file(little, entry(little, "x", 'B', 99, []byte("short")))); err == nil || !strings.Contains(err.Error(), "its text") {
		t.Errorf("a text without its end: %v", err)
	}
	if _, err := Parse(nil); err == nil || errors.Is(err, ErrNotReady) {
		t.Errorf("nothing: %v", err)
	}
}

// TestRealJVM reads a JVM on this machine.
func TestRealJVM(t *testing.T) {
	if _, err := exec.LookPath("jshell"); err != nil {
		t.Skipf("needs a JDK: %v", err)
	}
	cmd := exec.Command("java", "-Xmx32m", "-XX:+UsePerfData", "-m", "jdk.jshell/jdk.internal.jshell.tool.JShellToolProvider")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); cmd.Process.Kill(); cmd.Wait() })
	var c Counters
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		files, err := filepath.Glob(filepath.Join("/tmp/hsperfdata_*", strconv.Itoa(cmd.Process.Pid)))
		if err == nil && len(files) == 1 {
			var data []byte
			if data, err = os.ReadFile(files[0]); err == nil {
				if c, err = Parse(data); err == nil && c.Numbers["java.ci.totalTime"] > 0 {
					break
				}
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v, %v, %d counters", files, err, len(c.Numbers))
		}
	}
	if heap, ok := c.HeapUsedBytes(); !ok || heap < 0 || heap > 64<<20 || !strings.Contains(c.Texts["java.property.java.vm.name"], "VM") {
		t.Errorf("heap %d, %v; %v", heap, ok, c.Texts["java.property.java.vm.name"])
	}
	if ns, ok := c.JITNs(); !ok || ns <= 0 {
		t.Errorf("compiling: %d, %v", ns, ok)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample(binary.LittleEndian))
	f.Add(sample(binary.BigEndian))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			return
		}
		for _, of := range []func() (int64, bool){c.HeapUsedBytes, c.GCs, c.GCNs, c.SafepointNs, c.JITNs} {
			if v, ok := of(); ok && v < 0 {
				t.Errorf("a figure of %d", v)
			}
		}
	})
}
