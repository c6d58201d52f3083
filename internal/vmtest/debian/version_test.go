package debian

import "testing"

func TestCompareVersions(t *testing.T) {
	// Ascending, as `dpkg --compare-versions` orders them.
	ordered := []string{
		"0~", "0", "5.10.223-1", "6.1.0-9", "6.1.0-57", "6.9.1", "6.12~rc1-1", "6.12-1", "6.12-1.1",
		"6.12.95-1~bpo12+1", "6.12.95-1", "6.12.117-1~deb12u1", "6.12.117-1", "6.12.117+deb12-1", "7.3.4-1", "1:0.1",
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := compareVersions(a, b); sign(got) != sign(i-j) {
				t.Errorf("compareVersions(%q, %q) = %d, want the sign of %d", a, b, got, i-j)
			}
		}
	}
	for _, same := range [][2]string{{"1.0", "1.00"}, {"0:6.1", "6.1"}, {"6.1-0", "6.1"}, {"1.a0", "1.a"}} {
		if got := compareVersions(same[0], same[1]); got != 0 {
			t.Errorf("compareVersions(%q, %q) = %d, want 0", same[0], same[1], got)
		}
	}
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

func FuzzCompareVersions(f *testing.F) {
	f.Add("1:6.12~rc1-1", "6.12.117+deb12-1")
	f.Fuzz(func(t *testing.T, a, b string) {
		if sign(compareVersions(a, b)) != -sign(compareVersions(b, a)) || compareVersions(a, a) != 0 {
			t.Fatalf("no order between %q and %q", a, b)
		}
	})
}
