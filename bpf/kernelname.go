//go:build linux

package bpf

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
)

// namesKept bounds the cache: a kernel has some hundred thousand functions, and
// stacks meet a few thousand addresses.
const namesKept = 1 << 16

type kernelName struct {
	name   string
	offset uint64
}

type nameCache struct {
	mu    sync.Mutex
	known map[uint64]kernelName
}

// KernelName gives the function that holds a kernel address and the offset into
// it, also where kptr_restrict hides /proc/kallsyms. A module's functions carry
// " [module]". An address without a name is an error.
func (p *Profiler) KernelName(address uint64) (name string, offset uint64, err error) {
	p.names.mu.Lock()
	defer p.names.mu.Unlock()
	if n, ok := p.names.known[address]; ok {
		return n.name, n.offset, nil
	}
	in, out := rungSymbol{Address: address}, rungSymbol{}
	if _, err := p.objects.KernelName.Run(&ebpf.RunOptions{Context: &in, ContextOut: &out}); err != nil {
		return "", 0, fmt.Errorf("name kernel address %#x: %w", address, err)
	}
	text := make([]byte, 0, len(out.Name))
	for _, c := range out.Name {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	n, err := parseSymbol(string(text))
	if err != nil {
		return "", 0, fmt.Errorf("name kernel address %#x: %w", address, err)
	}
	if p.names.known == nil || len(p.names.known) >= namesKept {
		p.names.known = map[uint64]kernelName{}
	}
	p.names.known[address] = n
	return n.name, n.offset, nil
}

// parseSymbol reads what %pS prints: "name+0x12/0x34" or "name+0x12/0x34 [module]".
func parseSymbol(text string) (kernelName, error) {
	symbol, module, _ := strings.Cut(text, " ")
	name, rest, ok := strings.Cut(symbol, "+")
	if !ok || name == "" {
		return kernelName{}, fmt.Errorf("%q is no function", text)
	}
	digits, _, _ := strings.Cut(rest, "/")
	offset, err := strconv.ParseUint(digits, 0, 64)
	if err != nil {
		return kernelName{}, fmt.Errorf("%q: %w", text, err)
	}
	if module != "" {
		name += " " + module
	}
	return kernelName{name, offset}, nil
}
