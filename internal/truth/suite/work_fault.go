//go:build linux

package suite

import (
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// faultFile touches one page after the other of a file that is not in memory.
func (w *worker) faultFile(dir string) func(time.Duration) {
	stride := max(os.Getpagesize(), 64<<10)
	f := must(os.CreateTemp(dir, "rung-truth"))
	os.Remove(f.Name())
	size := w.crew.task.N * stride
	if _, err := f.Write(make([]byte, size)); err != nil {
		panic(err)
	}
	if err := f.Sync(); err != nil {
		panic(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, int64(size), unix.FADV_DONTNEED); err != nil {
		panic(err)
	}
	mem := must(unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED))
	if err := unix.Madvise(mem, unix.MADV_RANDOM); err != nil {
		panic(err)
	}
	at := 0
	return func(time.Duration) {
		sink.Add(uint64(mem[at]))
		at += stride
	}
}

// userFaults is memory whose faults another worker serves, after a known time.
type userFaults struct {
	fd  int
	mem []byte
	at  int
}

// The kernel's numbers (linux/userfaultfd.h).
const (
	uffdAPI         = 0xaa
	uffdioAPI       = 0xc018aa3f
	uffdioRegister  = 0xc020aa00
	uffdioZeropage  = 0xc020aa04
	uffdRegMissing  = 1
	uffdUserMode    = 1
	uffdEventFault  = 0x12
	uffdMessageSize = 32
)

func newUserFaults(pages int) *userFaults {
	u := &userFaults{}
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|uffdUserMode, 0, 0)
	if errno != 0 {
		panic(fmt.Sprintf("userfaultfd: %v; run as root on a kernel with CONFIG_USERFAULTFD", errno))
	}
	u.fd = int(fd)
	u.ioctl(uffdioAPI, &[4]uint64{uffdAPI})
	size := pages * os.Getpagesize()
	u.mem = must(unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS))
	u.ioctl(uffdioRegister, &[4]uint64{u.base(), uint64(size), uffdRegMissing})
	return u
}

func (u *userFaults) base() uint64 { return uint64(uintptr(unsafe.Pointer(&u.mem[0]))) }

func (u *userFaults) ioctl(request uintptr, arg *[4]uint64) {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(u.fd), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
		panic(fmt.Sprintf("userfaultfd request %#x: %v", request, errno))
	}
}

func (u *userFaults) touch(time.Duration) {
	sink.Add(uint64(u.mem[u.at]))
	u.at += os.Getpagesize()
}

// serve lets n faults wait for a while each.
func (u *userFaults) serve(w *worker, n int, length func(int) time.Duration) {
	page := uint64(os.Getpagesize())
	for i := range n {
		got, _, errno := w.call(unix.SYS_READ, uintptr(u.fd), uintptr(unsafe.Pointer(&w.buf)), uffdMessageSize, 0, 0, 0)
		if errno != 0 || got != uffdMessageSize || w.buf[0] != uffdEventFault {
			panic(fmt.Sprintf("userfaultfd event %#x: %v", w.buf[0], errno))
		}
		w.timed(func() { w.sleep(length(i)) })
		u.ioctl(uffdioZeropage, &[4]uint64{u.base() + uint64(i)*page, page})
	}
}
