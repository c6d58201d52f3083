package planted

import (
	"runtime"
	"testing"
	"time"
)

// TestBurnTakesWhatWasAsked compares with the thread's CPU clock, over enough
// calls that one interruption does not decide; the clock frequency of a shared
// host moves, so the bounds are wide.
func TestBurnTakesWhatWasAsked(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const each, calls = 50 * time.Microsecond, 200
	n, err := Iterations(each)
	if err != nil {
		t.Fatal(err)
	}
	before, err := threadCPUNs()
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(1)
	for range calls {
		seed = Burn(n, seed)
	}
	after, err := threadCPUNs()
	if err != nil {
		t.Fatal(err)
	}
	got := time.Duration(after-before) / calls
	if got < each/2 || got > each*2 {
		t.Errorf("a call of Burn took %v of CPU (last link %d), want %v", got, seed, each)
	}
}

func TestIterations(t *testing.T) {
	if n, err := Iterations(0); n != 0 || err != nil {
		t.Errorf("no time: %d iterations, %v", n, err)
	}
	if n, err := Iterations(time.Nanosecond); n < 1 || err != nil {
		t.Errorf("one nanosecond: %d iterations, %v", n, err)
	}
}

func TestBurnRunsEachIteration(t *testing.T) {
	if Burn(2, 5) != Burn(1, Burn(1, 5)) || Burn(0, 5) != 5 {
		t.Error("two iterations at once differ from one after the other")
	}
}
