package attribution

import "testing"

// st makes a stack, leaf first. "k:" marks kernel frames, "e:" entries, "n:"
// notes.
func st(frames ...string) Stack {
	s := Stack{Block: NoBlock, Count: 1, Value: 1}
	for _, f := range frames {
		mapping := "/srv/arm"
		if len(f) > 2 && f[1] == ':' {
			mapping = map[byte]string{'k': MappingKernel, 'e': MappingEntry, 'n': MappingNote}[f[0]]
			f = f[2:]
		}
		s.Frames = append(s.Frames, Frame{f, mapping})
	}
	return s
}

func TestCharge(t *testing.T) {
	const (
		planted = "github.com/rungprof/rung/arms/internal/planted.Burn"
		handler = "github.com/rungprof/rung/arms/echo.(*Service).JSON"
		serve   = "net/http.(*conn).serve"
	)
	write := []string{"k:tcp_sendmsg", "k:do_syscall_64", "e:syscall:write", "internal/runtime/syscall/linux.Syscall6", "syscall.write", "internal/poll.(*FD).Write", serve}
	softirq := append([]string{"k:tcp_v4_rcv", "k:handle_softirqs", "e:interrupt"}, write...)
	for name, c := range map[string]struct {
		stack                    Stack
		leaf, owner, kernelOwner string
	}{
		"user leaf":          {st("encoding/json.checkValid", handler, serve), "codec", "codec", "codec"},
		"copy for the codec": {st("runtime.memmove", "encoding/json.Marshal", handler, serve), "runtime", "codec", "codec"},
		"allocation, deep":   {st("runtime.nextFreeFast", "runtime.mallocgc", "runtime.growslice", "bytes.(*Buffer).grow", "encoding/json.Marshal", handler), "runtime", "codec", "codec"},
		"collector's thread": {st("runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker", "runtime.goexit"), "runtime", "runtime", "runtime"},
		"recursion":          {st("reflect.Value.Field", "encoding/json.structEncoder.encode", "reflect.Value.Field", "encoding/json.structEncoder.encode", handler), "codec", "codec", "codec"},
		"syscall":            {st(write...), "syscalls", "syscalls", "transport"},
		"interrupt over it":  {st(softirq...), "interrupt", "interrupt", "interrupt"},
		"fault in a syscall": {st(append([]string{"k:clear_page", "e:page fault"}, write...)...), "syscalls", "syscalls", "transport"},
		"fault of the codec": {st("k:clear_page", "e:page fault", "runtime.memclrNoHeapPointers", "encoding/json.Marshal"), "syscalls", "syscalls", "codec"},
		"kernel, no entry":   {st("k:foo", serve), "syscalls", "syscalls", "transport"},
		"kernel only":        {st("k:foo", "k:bar"), "syscalls", "syscalls", "syscalls"},
		"entry is the leaf":  {st("e:syscall:futex", "runtime.futex", "runtime.notesleep"), "syscalls", "syscalls", "syscalls"},
		"behind the syscall": {st("internal/runtime/syscall/linux.Syscall6", "syscall.write", "internal/poll.(*FD).Write", serve), "syscalls", "syscalls", "transport"},
		"planted":            {st(planted, handler, serve), Other, Other, Other},
		"planted copies":     {st("runtime.memmove", planted, handler), "runtime", Other, Other},
		"planted writes":     {st("k:vfs_write", "e:syscall:write", "syscall.write", planted, handler), "syscalls", "syscalls", Other},
		"handler":            {st(handler, serve), "application", "application", "application"},
		"h2c framing":        {st("net/http.(*http2Framer).ReadFrame", serve), "transport", "transport", "transport"},
		"h2c handler start":  {st("net/http.HandlerFunc.ServeHTTP", serve), "framework", "framework", "framework"},
		"grpc transport":     {st("google.golang.org/grpc/internal/transport.(*loopyWriter).run"), "transport", "transport", "transport"},
		"grpc server":        {st("google.golang.org/grpc.(*Server).processUnaryRPC"), "framework", "framework", "framework"},
		"grpc codec":         {st("google.golang.org/grpc/encoding/proto.(*codecV2).Marshal"), "codec", "codec", "codec"},
		"generated message":  {st("github.com/rungprof/rung/arms/echo/v1.(*Hello).ProtoReflect"), "codec", "codec", "codec"},
		"missing stack":      {st("n:" + NoteMissing), NoteMissing, NoteMissing, NoteMissing},
		"lost stack":         {st("n:" + NoteLost), NoteLost, NoteLost, NoteLost},
		"no frames":          {st(), NoteMissing, NoteMissing, NoteMissing},
		"kernel, no user":    {st("k:tcp_sendmsg", "e:syscall:write", "n:"+NoteMissing), "syscalls", "syscalls", NoteMissing},
		"cut before its own": {st("runtime.memmove", "runtime.growslice", "n:"+NoteTruncated), "runtime", NoteTruncated, NoteTruncated},
		"cut behind its own": {st("runtime.memmove", handler, "n:"+NoteTruncated), "runtime", "application", "application"},
		"unsymbolised":       {st("[unknown] /srv/arm+0x10", serve), Other, Other, Other},
		"vdso":               {Stack{Frames: []Frame{{"[unknown] [vdso]+0x6d0", "[vdso]"}, {"runtime.nanotime", "/srv/arm"}, {serve, "/srv/arm"}}, Block: NoBlock, Count: 1, Value: 1}, "syscalls", "syscalls", "transport"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, o := range []struct {
				Options
				want string
			}{
				{Options{Charge: Leaf}, c.leaf},
				{Options{Charge: Owner}, c.owner},
				{Options{Charge: Owner, KernelToOwner: true}, c.kernelOwner},
			} {
				table, err := Attribute(&Profile{Stacks: []Stack{c.stack}}, mustPreset(t, "go"), o.Options)
				if err != nil {
					t.Fatal(err)
				}
				if got := holder(table); got != o.want {
					t.Errorf("charge %s, kernel to owner %v: %q, want %q", o.Charge, o.KernelToOwner, got, o.want)
				}
			}
		})
	}
}

// holder is the one row that has the sample.
func holder(t *Table) string {
	for _, r := range append(t.Rows[:len(t.Rows):len(t.Rows)], t.Unattributed...) {
		if r.Samples == 1 {
			return r.Layer
		}
	}
	return ""
}

func TestKernelTimeIsListedByItsEntry(t *testing.T) {
	p := &Profile{Stacks: []Stack{st("k:tcp_sendmsg", "e:syscall:write", "syscall.write")}}
	table, err := Attribute(p, mustPreset(t, "go"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f := rowOf(t, table, "syscalls").Functions; len(f) != 1 || f[0].Name != "syscall:write" {
		t.Errorf("functions %v, want syscall:write", f)
	}
}

func TestKernelToOwnerNeedsOwner(t *testing.T) {
	if _, err := Attribute(&Profile{}, mustPreset(t, "go"), Options{KernelToOwner: true}); err == nil {
		t.Error("leaf charge moved kernel time")
	}
}
