//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"

	"github.com/rungprof/rung/loadgen"
)

// process is a child of the benchmark.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

func (b *bench) start(argv ...string) (*process, *bufio.Reader, error) {
	p := &process{cmd: exec.CommandContext(b.ctx, argv[0], argv[1:]...)}
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return p, bufio.NewReader(out), nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) end() {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

// arm starts a reference arm and gives its address.
func (b *bench) arm(args ...string) (p *process, address string, err error) {
	p, out, err := b.start(append([]string{b.rung, "arm"}, args...)...)
	if err != nil {
		return nil, "", err
	}
	line, err := out.ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "RUNG-ARM ready ")
	if !ok {
		p.end()
		return nil, "", fmt.Errorf("arm %q said %q, %v: %s", args, line, err, p.stderr.String())
	}
	return p, address, nil
}

// driver is a `rung load` that runs.
type driver struct {
	*process
	out   *bufio.Reader
	began chan struct{} // closed at the first marker
	text  bytes.Buffer
	done  chan error
}

// drive starts `rung load`, whose exit code for a client-limited step is no error.
// before, if any, are words that start it, as for a control group.
func (b *bench) drive(before []string, args ...string) (*driver, error) {
	argv := append(append([]string{}, before...), b.rung, "load", "--client-limited", "warn", "--json", "--body", "tiny", "--gap", "0s")
	p, out, err := b.start(append(argv, args...)...)
	if err != nil {
		return nil, err
	}
	d := &driver{process: p, out: out, began: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		first := true
		for {
			line, err := d.out.ReadString('\n')
			if first && strings.HasPrefix(line, loadgen.MarkerPrefix) {
				close(d.began)
				first = false
			}
			if !strings.HasPrefix(line, loadgen.MarkerPrefix) {
				d.text.WriteString(line)
			}
			if err != nil {
				if err == io.EOF {
					err = nil
				}
				d.done <- err
				return
			}
		}
	}()
	return d, nil
}

// result waits for the end and reads what was printed into v.
func (d *driver) result(v any) error {
	readErr := <-d.done
	err := d.cmd.Wait()
	if readErr != nil {
		return readErr
	}
	if jsonErr := json.Unmarshal(d.text.Bytes(), v); jsonErr != nil {
		return fmt.Errorf("rung load: %v, %w: %s%s", err, jsonErr, d.text.String(), d.stderr.String())
	}
	return nil
}

// ladder is what `rung load --json` prints.
type ladder struct {
	Steps []loadgen.StepResult `json:"steps"`
	Error string               `json:"error"`
}

func (b *bench) ladder(before []string, args ...string) ([]loadgen.StepResult, error) {
	d, err := b.drive(before, args...)
	if err != nil {
		return nil, err
	}
	var got ladder
	if err := d.result(&got); err != nil {
		return nil, err
	}
	if got.Error != "" || len(got.Steps) == 0 {
		return nil, fmt.Errorf("rung load %q: %d steps, %s", args, len(got.Steps), got.Error)
	}
	return got.Steps, nil
}
