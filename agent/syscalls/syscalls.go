// Package syscalls tells the name of a Linux system call from its number, on
// amd64 and arm64. Names are the kernel's own and alike on both.
package syscalls

import "strconv"

//go:generate go run gen.go

// NameFor returns the name of call nr on the architecture that Go calls arch, such
// as "write", or "syscall_451" for a number the table lacks. Only "amd64" and
// "arm64" have a table.
func NameFor(arch string, nr int32) string {
	var table []string
	switch arch {
	case "amd64":
		table = amd64Names[:]
	case "arm64":
		table = arm64Names[:]
	}
	if nr >= 0 && int(nr) < len(table) && table[nr] != "" {
		return table[nr]
	}
	return "syscall_" + strconv.FormatInt(int64(nr), 10)
}
