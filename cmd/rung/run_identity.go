//go:build linux

package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/rungprof/rung/campaign"
)

// processOf names a process by its number and start.
func processOf(pid int) (campaign.Process, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return campaign.Process{}, err
	}
	stat, err := p.Stat()
	if err != nil {
		return campaign.Process{}, err
	}
	return campaign.Process{Pid: pid, Start: stat.Starttime}, nil
}

// listenersAt are the processes that listen at an address of this host, in order
// of their numbers. None is no error: the address may be another host's, in
// another network namespace, or its processes another user's.
func listenersAt(address string) []campaign.Process {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || !ofThisHost(host) {
		return nil
	}
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		addListening(table, host, number, inodes)
	}
	if len(inodes) == 0 {
		return nil
	}
	var out []campaign.Process
	dirs, _ := filepath.Glob("/proc/[0-9]*/fd")
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // ended meanwhile, or another user's
		}
		for _, e := range entries {
			target, err := os.Readlink(filepath.Join(dir, e.Name()))
			inode, socket := strings.CutPrefix(target, "socket:[")
			if err != nil || !socket || !inodes[strings.TrimSuffix(inode, "]")] {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
			if err != nil {
				break
			}
			if p, err := processOf(pid); err == nil {
				out = append(out, p)
			}
			break
		}
	}
	slices.SortFunc(out, func(a, b campaign.Process) int { return a.Pid - b.Pid })
	return out
}

// ofThisHost says whether a host's name or number is one of this host's.
func ofThisHost(host string) bool {
	ips, err := net.LookupIP(host)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, ip := range ips {
		if ip.IsLoopback() || ip.IsUnspecified() {
			return true
		}
		for _, a := range own {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
				return true
			}
		}
	}
	return false
}

// listening is the state of a socket that listens, in /proc/net/tcp.
const listening = "0A"

// addListening notes the inodes of sockets that listen at a port, on an address
// of the host or on all.
func addListening(table, host string, port uint64, inodes map[string]bool) {
	f, err := os.Open(table)
	if err != nil {
		return
	}
	defer f.Close()
	ips, _ := net.LookupIP(host)
	for scan := bufio.NewScanner(f); scan.Scan(); {
		fields := strings.Fields(scan.Text())
		if len(fields) < 10 || fields[3] != listening {
			continue
		}
		ip, p, ok := parseProcAddress(fields[1])
		if !ok || p != port {
			continue
		}
		if ip.IsUnspecified() || slices.ContainsFunc(ips, ip.Equal) {
			inodes[fields[9]] = true
		}
	}
}

// parseProcAddress reads 0100007F:1F90: each 32-bit word of the address is in
// the machine's byte order, which is little-endian on all that Rung runs on.
func parseProcAddress(text string) (net.IP, uint64, bool) {
	address, port, ok := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	number, perr := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || perr != nil || len(raw)%4 != 0 {
		return nil, 0, false
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	return net.IP(raw), number, true
}

// restarted says what differs between an arm's identities, "" where nothing does.
// What could not be seen at one of the times is not held against it.
func restarted(before, after campaign.Identity) string {
	switch {
	case before.Process != nil && after.Process != nil && *before.Process != *after.Process:
		return fmt.Sprintf("it was restarted: %s before, %s after", processText(*before.Process), processText(*after.Process))
	case before.Container != "" && after.Container != "" && before.Container != after.Container:
		return fmt.Sprintf("its container was restarted: %s before, %s after", before.Container, after.Container)
	case len(before.Listeners) > 0 && len(after.Listeners) == 0:
		return fmt.Sprintf("nothing listens any more: %s did", processTexts(before.Listeners))
	case len(before.Listeners) > 0 && !reflect.DeepEqual(before.Listeners, after.Listeners):
		return fmt.Sprintf("it was restarted by someone else: %s listened before, %s after", processTexts(before.Listeners), processTexts(after.Listeners))
	}
	return ""
}

func processText(p campaign.Process) string {
	return fmt.Sprintf("process %d (started at tick %d)", p.Pid, p.Start)
}

func processTexts(all []campaign.Process) string {
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = processText(p)
	}
	return strings.Join(texts, ", ")
}
