package debian

import "strings"

// compareVersions orders two package versions as dpkg does (Debian policy
// 5.6.12): epoch, then upstream version, then revision; negative if a is older.
func compareVersions(a, b string) int {
	aEpoch, a := cutEpoch(a)
	bEpoch, b := cutEpoch(b)
	if c := compareDigits(aEpoch, bEpoch); c != 0 {
		return c
	}
	aUp, aRev := cutRevision(a)
	bUp, bRev := cutRevision(b)
	if c := comparePart(aUp, bUp); c != 0 {
		return c
	}
	return comparePart(aRev, bRev)
}

func cutEpoch(v string) (epoch, rest string) {
	if before, after, ok := strings.Cut(v, ":"); ok {
		return before, after
	}
	return "", v
}

func cutRevision(v string) (upstream, revision string) {
	if i := strings.LastIndexByte(v, '-'); i >= 0 {
		return v[:i], v[i+1:]
	}
	return v, ""
}

// comparePart compares runs of other characters and runs of digits in turn.
func comparePart(a, b string) int {
	for a != "" || b != "" {
		for a != "" && !isDigit(a[0]) || b != "" && !isDigit(b[0]) {
			x, y := weight(a), weight(b)
			if x != y {
				return x - y
			}
			a, b = a[1:], b[1:]
		}
		aNum, bNum := digits(a), digits(b)
		if c := compareDigits(aNum, bNum); c != 0 {
			return c
		}
		a, b = a[len(aNum):], b[len(bNum):]
	}
	return 0
}

// weight orders the first character: "~" before the end, the end (or a digit)
// before letters, letters before the rest.
func weight(s string) int {
	switch {
	case s == "" || isDigit(s[0]):
		return 0
	case s[0] == '~':
		return -1
	case s[0] >= 'A' && s[0] <= 'Z' || s[0] >= 'a' && s[0] <= 'z':
		return int(s[0])
	}
	return int(s[0]) + 256
}

func digits(s string) string {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:n]
}

func compareDigits(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
