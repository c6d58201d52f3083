//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// slot is what user space knows of a target.
type slot struct {
	cgroup  uint64 // 0 for a process tree
	pid     uint32
	added   MonoNs
	clocks  clockSet  // with ClockPerCgroup
	windows [2]Window // at ID % 2; ID 0: free
}

func (s Slot) index() uint32 { return uint32(s) % MaxTargets }

// AddCgroup makes the subtree of a v2 cgroup a target, present and future
// descendants included. cgroupID is the directory's inode number.
func (p *Profiler) AddCgroup(cgroupID uint64) (Slot, error) {
	t := &slot{cgroup: cgroupID}
	if p.options.Clock == ClockPerCgroup {
		fd, err := p.openCgroup(cgroupID)
		if err != nil {
			return 0, err
		}
		defer unix.Close(fd)
		if t.clocks, err = p.openClocks(fd); err != nil {
			return 0, err
		}
	}
	return p.add(t, func(s Slot) error {
		if err := p.objects.Roots.Update(cgroupID, uint32(s), ebpf.UpdateNoExist); err != nil {
			if errors.Is(err, ebpf.ErrKeyExist) {
				return fmt.Errorf("cgroup %d is a target already", cgroupID)
			}
			return fmt.Errorf("add cgroup %d: %w", cgroupID, err)
		}
		return nil
	})
}

// AddTree makes a process and all its descendants a target, present and future.
func (p *Profiler) AddTree(pid uint32) (Slot, error) {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil || pid == 0 {
		return 0, fmt.Errorf("no process %d", pid)
	}
	if p.options.Clock == ClockPerCgroup {
		return 0, fmt.Errorf("process %d: a sampling clock per cgroup knows no process trees; name the cgroup, or take the clock per CPU", pid)
	}
	return p.add(&slot{pid: pid}, func(s Slot) error {
		if err := p.objects.Trees.Update(pid, uint32(s), ebpf.UpdateNoExist); err != nil {
			if errors.Is(err, ebpf.ErrKeyExist) {
				return fmt.Errorf("process %d belongs to a target already", pid)
			}
			return fmt.Errorf("add process %d: %w", pid, err)
		}
		return nil
	})
}

func (p *Profiler) add(t *slot, enter func(Slot) error) (_ Slot, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if err != nil {
			t.clocks.close()
			t.clocks = nil
		}
	}()
	s, err := p.freeSlot()
	if err != nil {
		return 0, err
	}
	t.added = Now()
	if err := p.objects.Targets.Put(s.index(), rungTarget{Added: uint64(t.added)}); err != nil {
		return 0, fmt.Errorf("add target: %w", err)
	}
	if err := enter(s); err != nil {
		return 0, err
	}
	p.slots[s] = t
	if err := p.publish(); err != nil {
		return 0, err
	}
	// Twice: a process born behind the first pass's back has a parent it missed.
	for range 2 {
		if _, err := readIter(p.prepares); err != nil {
			return 0, fmt.Errorf("prepare the threads of a target: %w", err)
		}
	}
	return s, nil
}

// freeSlot gives a slot never used before, on an index that is free now.
func (p *Profiler) freeSlot() (Slot, error) {
	taken := map[uint32]bool{}
	for s := range p.slots {
		taken[s.index()] = true
	}
	if len(taken) == MaxTargets {
		return 0, fmt.Errorf("%d targets already: remove one first", MaxTargets)
	}
	for {
		p.serial++
		if s := Slot(p.serial); !taken[s.index()] {
			return s, nil
		}
	}
}

// publish tells the programs which kinds of target exist, and outdates their memos.
func (p *Profiler) publish() error {
	var cgroups, trees uint32
	for _, t := range p.slots {
		if t.cgroup != 0 {
			cgroups++
		} else {
			trees++
		}
	}
	p.generation++
	if trees == 0 { // no process is in one
		if err := p.objects.TreeBits.Set(make([]uint64, p.objects.TreeBits.Size()/8)); err != nil {
			return err
		}
	}
	return errors.Join(
		p.objects.Generation.Set(p.generation),
		p.objects.CgroupCount.Set(cgroups),
		p.objects.TreeCount.Set(trees))
}

// Remove ends a target and drops what was not read of its windows.
func (p *Profiler) Remove(s Slot) error {
	p.mu.Lock()
	t, ok := p.slots[s]
	p.mu.Unlock()
	if !ok {
		return fmt.Errorf("remove target: slot %d is not in use", s)
	}
	var errs []error
	for _, w := range t.windows {
		if w.ID != 0 {
			_, err := p.Samples(s, w.ID)
			errs = append(errs, err, p.Release(s, w.ID))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.slots, s)
	errs = append(errs, t.clocks.close())
	if t.cgroup != 0 {
		errs = append(errs, p.objects.Roots.Delete(t.cgroup))
	} else {
		errs = append(errs, p.deleteTree(s, func(uint32) bool { return true }))
	}
	errs = append(errs, p.publish(), p.forget(s), p.dropLeft(s, 0))
	var key rungDeadKey
	var th rungThread
	var dead []rungDeadKey
	for it := p.objects.Dead.Iterate(); it.Next(&key, &th); {
		if Slot(key.Slot) == s {
			dead = append(dead, key)
		}
	}
	return errors.Join(append(errs, deleteAll(p.objects.Dead, dead))...)
}

// dropLeft removes the intervals that ended after those of a window were read.
func (p *Profiler) dropLeft(s Slot, id uint32) error {
	left, err := p.readStrata(s, id)
	if err != nil {
		return err
	}
	return p.dropStrata(left)
}

// forget frees the accounts of the threads of a target that was removed.
func (p *Profiler) forget(s Slot) error {
	p.reporting.Lock()
	defer p.reporting.Unlock()
	if err := p.objects.ReportSlot.Set(uint32(s)); err != nil {
		return fmt.Errorf("free the threads of a target: %w", err)
	}
	if _, err := readIter(p.forgets); err != nil {
		return fmt.Errorf("free the threads of a target: %w", err)
	}
	return nil
}

// deleteTree removes those processes of a tree that match.
func (p *Profiler) deleteTree(s Slot, match func(tgid uint32) bool) error {
	var tgid, owner uint32
	var gone []uint32
	for it := p.objects.Trees.Iterate(); it.Next(&tgid, &owner); {
		if Slot(owner) == s && match(tgid) {
			gone = append(gone, tgid)
		}
	}
	return deleteAll(p.objects.Trees, gone)
}

// Arm opens a window. Its id must be one more than that of the slot's last, and
// the window before the last must have been released. An instant that has
// passed is accepted: the caller knows how late it is, and says so.
func (p *Profiler) Arm(s Slot, w Window) error {
	if w.ID == 0 || w.BlockNs == 0 || (w.End != 0 && w.End <= w.Start) {
		return fmt.Errorf("arm window %+v: want an id and a block length above 0, and an end after the start", w)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.slots[s]
	if !ok {
		return fmt.Errorf("arm window: slot %d is not in use", s)
	}
	cell := &t.windows[w.ID%2]
	if cell.ID != 0 {
		return fmt.Errorf("arm window %d: window %d has not been drained", w.ID, cell.ID)
	}
	if p.armed == 0 {
		p.stats.on()
		if err := p.clocks.run(true); err != nil {
			return err
		}
	}
	if err := t.clocks.run(true); err != nil {
		return err
	}
	p.armed++
	*cell = w
	return p.writeWindows(s, t)
}

// SetEnd sets or moves the closing edge of an armed window.
func (p *Profiler) SetEnd(s Slot, id uint32, end MonoNs) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, w, err := p.window(s, id)
	if err != nil {
		return err
	}
	if end <= w.Start {
		return fmt.Errorf("end window %d: %d is not after its start %d", id, end, w.Start)
	}
	w.End = end
	return p.writeWindows(s, t)
}

// window finds an armed window; p.mu is held.
func (p *Profiler) window(s Slot, id uint32) (*slot, *Window, error) {
	t, ok := p.slots[s]
	if !ok {
		return nil, nil, fmt.Errorf("slot %d is not in use", s)
	}
	w := &t.windows[id%2]
	if id == 0 || w.ID != id {
		return nil, nil, fmt.Errorf("window %d of slot %d is not armed", id, s)
	}
	return t, w, nil
}

// writeWindows hands a target's windows to the programs. They may read while it
// is written, word by word: a new window is written empty first, so that no mix
// of two windows is ever open.
func (p *Profiler) writeWindows(s Slot, t *slot) error {
	var before rungTarget
	if err := p.objects.Targets.Lookup(s.index(), &before); err != nil {
		return err
	}
	after := rungTarget{Added: uint64(t.added)}
	for i, w := range t.windows {
		if w.ID == 0 {
			continue
		}
		end := uint64(w.End)
		if end == 0 {
			end = ^uint64(0)
		}
		cell := &after.Windows[i]
		cell.Start, cell.End, cell.BlockNs, cell.Id = uint64(w.Start), end, w.BlockNs, w.ID
		if before.Windows[i].Id != w.ID {
			before.Windows[i] = rungWindow{Start: ^uint64(0)}
		}
	}
	if err := p.objects.Targets.Put(s.index(), before); err != nil {
		return err
	}
	return p.objects.Targets.Put(s.index(), after)
}

// Release ends a window that has been read: its cell can be armed again, and
// stacks that no open window refers to may go.
func (p *Profiler) Release(s Slot, id uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, w, err := p.window(s, id)
	if err != nil {
		return err
	}
	*w = Window{}
	errs := []error{p.writeWindows(s, t), p.dropLeft(s, id)}
	if p.armed--; p.armed == 0 {
		errs = append(errs, p.clocks.run(false))
		p.stats.off()
	}
	if t.windows == [2]Window{} {
		errs = append(errs, t.clocks.run(false))
	}
	if t.cgroup == 0 {
		errs = append(errs, p.deleteTree(s, func(tgid uint32) bool {
			_, err := os.Stat(fmt.Sprintf("/proc/%d", tgid))
			return err != nil
		}))
	}
	return errors.Join(append(errs, p.dropStacks())...)
}

func readIter(it *link.Iter) ([]byte, error) {
	f, err := it.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
