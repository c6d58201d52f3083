package symbol

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeProc is a proc file system in a temporary directory, with one process.
type fakeProc struct {
	t          *testing.T
	root, proc string // the process's root; its directory in procfs
	procRoot   string
	maps       strings.Builder
	next       uint64
}

func newFakeProc(t *testing.T, pid int) *fakeProc {
	dir := t.TempDir()
	p := &fakeProc{
		t: t, root: filepath.Join(dir, "rootfs"), procRoot: filepath.Join(dir, "proc"),
		proc: filepath.Join(dir, "proc", strconv.Itoa(pid)), next: 0x10000000,
	}
	for _, d := range []string{p.root, filepath.Join(p.proc, "map_files")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.check(os.Symlink(p.root, filepath.Join(p.proc, "root")))
	return p
}

func (p *fakeProc) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// file writes a program with one function called name below the root.
func (p *fakeProc) file(path, name string) string {
	full := filepath.Join(p.root, path)
	p.check(os.MkdirAll(filepath.Dir(full), 0o755))
	p.check(os.WriteFile(full, fakeELF{text: make([]byte, 0x100), symbols: []elf.Symbol{
		testSym(name, elf.STT_FUNC, elf.STB_GLOBAL, 0, 0x100),
	}}.bytes(), 0o644))
	return full
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// mapText adds the text of such a program to the mappings and returns its address.
func (p *fakeProc) mapText(path string, ino uint64) uint64 {
	start := p.next
	p.next += 0x10000
	fmt.Fprintf(&p.maps, "%x-%x r-xp 00001000 fe:00 %d %s\n", start, start+0x1000, ino, path)
	p.check(os.WriteFile(filepath.Join(p.proc, "maps"), []byte(p.maps.String()), 0o644))
	return start
}

func TestProcessOpensOnlyTheMappedFile(t *testing.T) {
	p := newFakeProc(t, 42)
	good := p.file("app/good", "good")
	goodAddr := p.mapText("/app/good", inode(t, good))

	// Links are followed within the process's root, never out of it.
	p.check(os.Symlink("/app/good", filepath.Join(p.root, "link")))
	linkAddr := p.mapText("/link", inode(t, good))
	outside := filepath.Join(t.TempDir(), "outside")
	p.check(os.Rename(p.file("tmp", "outside"), outside))
	p.check(os.Symlink(outside, filepath.Join(p.root, "escape")))
	escapeAddr := p.mapText("/escape", inode(t, outside))
	dotsAddr := p.mapText("/../../../../../../../../"+outside, inode(t, outside))

	replaced := p.file("app/replaced", "newer")
	replacedAddr := p.mapText("/app/replaced", inode(t, replaced)+1<<40)

	fifo := filepath.Join(p.root, "fifo")
	p.check(syscall.Mkfifo(fifo, 0o644))
	fifoAddr := p.mapText("/fifo", inode(t, fifo))
	p.check(os.Mkdir(filepath.Join(p.root, "dir"), 0o755))
	dirAddr := p.mapText("/dir", inode(t, filepath.Join(p.root, "dir")))
	p.check(os.WriteFile(filepath.Join(p.root, "text"), []byte("hello"), 0o644))
	textFileAddr := p.mapText("/text", inode(t, filepath.Join(p.root, "text")))
	missingAddr := p.mapText("/missing", 1<<40)

	// A deleted file is reached through the mapping itself.
	deleted := p.file("app/deleted", "deleted")
	deletedAddr := p.mapText("/app/deleted (deleted)", inode(t, deleted))
	p.check(os.Rename(deleted, deleted+".gone"))
	p.check(os.Symlink(deleted+".gone", filepath.Join(p.proc, "map_files", fmt.Sprintf("%x-%x", deletedAddr, deletedAddr+0x1000))))
	// So is the executable, where map_files may not be read.
	exe := p.file("app/exe", "exe")
	exeAddr := p.mapText("/app/exe (deleted)", inode(t, exe))
	p.check(os.Rename(exe, exe+".gone"))
	p.check(os.Symlink(exe+".gone", filepath.Join(p.proc, "exe")))

	s := New(Options{ProcRoot: p.procRoot})
	defer s.Close()
	proc, err := s.Process(42)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		addr uint64
		want string
		loss Loss
	}{
		{"plain", goodAddr + 0x20, "good", Named},
		{"link", linkAddr + 0x20, "good", Named},
		{"link out of the root", escapeAddr, "[unknown] /escape+0x1000", UnreadableFile},
		{"dots out of the root", dotsAddr, "[unknown] /../../../../../../../../" + outside + "+0x1000", UnreadableFile},
		{"replaced", replacedAddr, "[unknown] /app/replaced+0x1000", StaleFile},
		{"pipe", fifoAddr, "[unknown] /fifo+0x1000", UnreadableFile},
		{"directory", dirAddr, "[unknown] /dir+0x1000", UnreadableFile},
		{"no ELF file", textFileAddr, "[unknown] /text+0x1000", UnreadableFile},
		{"missing", missingAddr, "[unknown] /missing+0x1000", UnreadableFile},
		{"deleted", deletedAddr, "deleted", Named},
		{"deleted executable", exeAddr, "exe", Named},
		{"past the function", goodAddr + 0x100, "[unknown] /app/good+0x1100", NoSymbol},
		{"not mapped", 0x42, "[unknown] [unmapped]+0x42", UnknownMapping},
	} {
		loc := proc.Lookup(tt.addr)
		if got := loc.Lines[0].Function; got != tt.want || loc.Loss != tt.loss {
			t.Errorf("%s: got %q (%v), want %q (%v)", tt.name, got, loc.Loss, tt.want, tt.loss)
		}
	}
	if loc := proc.Lookup(goodAddr + 0x20); loc.Address != textAddr+0x20 || loc.Mapping.File != "/app/good" {
		t.Errorf("got %+v, want address %#x in /app/good", loc, textAddr+0x20)
	}
	var total uint64
	for _, n := range s.Losses() {
		total += n
	}
	if l := s.Losses(); total != 14 || l[StaleFile] != 1 || l[UnreadableFile] != 6 || l[UnknownMapping] != 1 {
		t.Errorf("losses %v", l)
	}
}

func TestProcessSpecialMappings(t *testing.T) {
	p := newFakeProc(t, 42)
	p.maps.WriteString("1000-2000 r-xp 0 00:00 0 \n3000-4000 r-xp 0 00:00 0 [vdso]\n5000-6000 r-xp 0 00:00 0 [anon:jit]\n")
	p.mapText("/x", 1)
	s := New(Options{ProcRoot: p.procRoot})
	defer s.Close()
	proc, err := s.Process(42)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[uint64]string{
		0x1010: "[unknown] [anon]+0x10",
		0x3010: "[vdso]",
		0x5010: "[unknown] [anon]+0x10",
		0x2000: "[unknown] [unmapped]+0x2000",
	} {
		if got := proc.Lookup(addr).Lines[0].Function; got != want {
			t.Errorf("%#x: got %q, want %q", addr, got, want)
		}
	}
}

func TestProcessThatExited(t *testing.T) {
	p := newFakeProc(t, 42)
	good := p.file("app/good", "good")
	addr := p.mapText("/app/good", inode(t, good))
	s := New(Options{ProcRoot: p.procRoot})
	defer s.Close()
	if _, err := s.Process(43); err == nil {
		t.Error("a process that never was has mappings")
	}
	proc, err := s.Process(42)
	if err != nil {
		t.Fatal(err)
	}
	if proc.Lookup(addr).Loss != Named || proc.Gone() {
		t.Error("a live process has no names")
	}
	for _, gone := range []func(){
		func() { p.check(os.WriteFile(filepath.Join(p.proc, "maps"), nil, 0o644)) }, // a zombie
		func() { p.check(os.RemoveAll(p.proc)) },
	} {
		gone()
		again, err := s.Process(42)
		if err != nil {
			t.Fatal(err)
		}
		if loc := again.Lookup(addr); loc.Lines[0].Function != "good" || !again.Gone() {
			t.Errorf("got %+v of a process that exited, gone %v", loc, again.Gone())
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Process(42); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A process that was remembered keeps its names when it is gone with its files,
// none of which was asked for while it ran; one that grew, with what it gained.
func TestRemember(t *testing.T) {
	p := newFakeProc(t, 42)
	first := p.file("app/first", "first")
	firstAddr := p.mapText("/app/first", inode(t, first))
	s := New(Options{ProcRoot: p.procRoot})
	defer s.Close()
	if err := s.Remember(43); err == nil {
		t.Error("a process that never was is remembered")
	}
	if err := s.Remember(42); err != nil {
		t.Fatal(err)
	}
	second := p.file("app/second", "second")
	secondAddr := p.mapText("/app/second", inode(t, second))
	p.check(os.Remove(first)) // open, so that it need not be there
	if err := s.Remember(42); err != nil {
		t.Fatal(err)
	}
	if n := len(s.files.files); n != 2 {
		t.Errorf("%d files are open, want 2", n)
	}
	p.check(os.RemoveAll(p.proc))
	p.check(os.RemoveAll(p.root))
	if err := s.Remember(42); err == nil {
		t.Error("a process that is gone was read")
	}
	proc, err := s.Process(42)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[uint64]string{firstAddr: "first", secondAddr: "second"} {
		if got := proc.Lookup(addr); got.Lines[0].Function != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	s.Close()
	if err := s.Remember(42); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Remembering holds a part of the files that may be open, and no more processes
// than the bound.
func TestRememberBounds(t *testing.T) {
	p := newFakeProc(t, 42)
	for i := range 9 {
		name := "f" + strconv.Itoa(i)
		p.mapText("/"+name, inode(t, p.file(name, name)))
	}
	s := New(Options{ProcRoot: p.procRoot, MaxFiles: 6, MaxProcesses: 1})
	defer s.Close()
	if err := s.Remember(42); err != nil {
		t.Fatal(err)
	}
	if n := len(s.files.files); n != 3 {
		t.Errorf("%d files are open, want half of 6", n)
	}
	p.check(os.Rename(p.proc, filepath.Join(p.procRoot, "44")))
	if err := s.Remember(44); err != nil {
		t.Fatal(err)
	}
	if len(s.procs) != 1 || len(s.files.files) > 6 {
		t.Errorf("%d processes and %d files", len(s.procs), len(s.files.files))
	}
}

// Bounds on files and processes must cost time, not answers.
func TestCacheBounds(t *testing.T) {
	p := newFakeProc(t, 42)
	var addrs []uint64
	for i := range 5 {
		name := "f" + strconv.Itoa(i)
		addrs = append(addrs, p.mapText("/"+name, inode(t, p.file(name, name))))
	}
	s := New(Options{ProcRoot: p.procRoot, MaxFiles: 2, MaxProcesses: 1})
	defer s.Close()
	proc, err := s.Process(42)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				for i, a := range addrs {
					if got, want := proc.Lookup(a).Lines[0].Function, "f"+strconv.Itoa(i); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := len(s.files.files); n > 2 {
		t.Errorf("%d files are open", n)
	}
	p.check(os.Rename(p.proc, filepath.Join(p.procRoot, "44")))
	if _, err := s.Process(44); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Process(42); err == nil {
		t.Error("more processes are remembered than the bound allows")
	}
}

// A file that shrinks or changes under the reader must not do harm.
func TestFileThatShrinks(t *testing.T) {
	p := newFakeProc(t, 42)
	path := p.file("app", "app")
	addr := p.mapText("/app", inode(t, path))
	s := New(Options{ProcRoot: p.procRoot})
	defer s.Close()
	proc, err := s.Process(42)
	if err != nil {
		t.Fatal(err)
	}
	if got := proc.Lookup(addr); got.Loss != Named {
		t.Fatal(got)
	}
	p.check(os.Truncate(path, 100))
	if got := proc.Lookup(addr + 8); len(got.Lines) == 0 {
		t.Errorf("no line for an address of a truncated file: %+v", got)
	}
	again, err := s.Process(42)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Lookup(addr); got.Loss != UnreadableFile {
		t.Errorf("a truncated file is %v", got.Loss)
	}
}
