package loadgen

import (
	"net"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// hostTimes reads /proc/stat. Time waiting for disks is idle; what a hypervisor
// took is busy, because it cannot be had.
func hostTimes() (cpuTimes, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return cpuTimes{}, err
	}
	stat, err := fs.Stat()
	if err != nil {
		return cpuTimes{}, err
	}
	c := stat.CPUTotal
	idle := c.Idle + c.Iowait
	// Guests' time is in User and Nice already.
	total := c.User + c.Nice + c.System + idle + c.IRQ + c.SoftIRQ + c.Steal
	return cpuTimes{busy: total - idle, total: total}, nil
}

// unsentOf is what a connection holds unsent though its peer's window is open:
// 0 while the window limited it for more than half of the time since the last
// look, and where the kernel does not tell.
func (c *countedConn) unsentOf() uint64 {
	tcp, ok := c.raw.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	var info *unix.TCPInfo
	if raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }) != nil || err != nil {
		return 0
	}
	now := monoNow()
	held := int64(info.Rwnd_limited) - c.heldUs
	span := (now - c.lookedAt) / 1000
	c.heldUs, c.lookedAt = int64(info.Rwnd_limited), now
	if 2*held > span {
		return 0
	}
	return uint64(info.Notsent_bytes)
}
