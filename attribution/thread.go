package attribution

import "strings"

// ThreadGroup folds the numbers in a thread's name, so that the threads of a
// pool share one name: "worker-3" gives "worker-*", "qtp1234-45" "qtp*-*". A
// number after the single letter that begins a word is a name, not a count, and
// stays: "C2 CompilerThre", "G1 Conc#0" gives "G1 Conc#*".
func ThreadGroup(comm string) string {
	var sb strings.Builder
	for i := 0; i < len(comm); {
		if !isDigit(comm[i]) {
			sb.WriteByte(comm[i])
			i++
			continue
		}
		end := i
		for end < len(comm) && isDigit(comm[end]) {
			end++
		}
		if i > 0 && isLetter(comm[i-1]) && (i == 1 || !isLetter(comm[i-2]) && !isDigit(comm[i-2])) {
			sb.WriteString(comm[i:end])
		} else {
			sb.WriteByte('*')
		}
		i = end
	}
	return sb.String()
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
