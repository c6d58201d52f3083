// Package wire is what the harness and its guest tell each other: a [Plan] in
// the initramfs on the way in, [Frame]s over one virtio-serial port on the way out.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/rungprof/rung/internal/vmtest/capset"
)

// Names both sides agree on.
const (
	PortName   = "rung.vmtest"
	PlanPath   = "/plan.json"
	ModuleDir  = "/mod" // modules, named in the order to load them
	PayloadDir = "/w"   // where payloads lie unless they name a place
	// MaxData bounds one frame's data in bytes.
	MaxData = 1 << 16
	// Ack is the byte the host answers to a Done frame; the guest waits for
	// it before it powers off, so that no output is lost in the device.
	Ack = 0x06
	// TimeoutCode is a payload's exit code when its own timeout ended it.
	TimeoutCode = 124
)

// Plan is what a guest does between boot and power-off.
type Plan struct {
	// TimeUnixNs is the host's time when the guest was started; the guest's
	// clock is set to it if it is behind.
	TimeUnixNs int64
	Sysctls    []Sysctl // set before the first payload
	Payloads   []Payload
}

// Sysctl is one setting under /proc/sys; the name is dotted.
type Sysctl struct{ Name, Value string }

// Payload is one command, run as uid 0 with the given capabilities. Payloads
// run one after another; each one's descendants are killed when it ends.
type Payload struct {
	Name    string
	Argv    []string
	Env     []string // added to PATH, HOME and TMPDIR
	Dir     string   // working folder, PayloadDir if empty
	Caps    capset.Set
	Sysctls []Sysctl // set before it runs; they stay
	// Limited are capabilities of the payload's children that run its own
	// executable, by their first argument: {"agent": capset.Agent} leaves
	// `rung demo` as it is and has it start `rung agent` with just those. The
	// payload itself then has all, and fails if it starts no such child.
	Limited map[string]capset.Set `json:",omitempty"`
	// TimeoutMs ends it (exit code TimeoutCode); 0: no limit of its own.
	TimeoutMs int64
}

// Kind says what a frame carries.
type Kind uint8

// Kinds of frame. Start, Stdout, Stderr and Exit belong to one payload.
const (
	KindBoot   Kind = iota + 1 // data: JSON of Boot; the first frame
	KindStart                  // no data
	KindStdout                 // data: bytes
	KindStderr                 // data: bytes
	KindExit                   // data: JSON of Exit
	KindFail                   // data: why the guest cannot do its plan
	KindDone                   // no data; the last frame
)

// Boot is what a guest says of itself when it is ready for payloads.
type Boot struct {
	Release  string // uname -r
	UptimeMs int64  // from kernel start
}

// Exit is how a payload ended.
type Exit struct {
	Code     int    // exit status, 128 + signal, or TimeoutCode
	Error    string // what was wrong beside the code: it could not be started
	UptimeMs int64
}

// Frame is one message of the guest.
type Frame struct {
	Kind    Kind
	Payload uint16 // index into Plan.Payloads
	Data    []byte
}

const headerLen = 1 + 2 + 4 // kind, payload, length of data; big-endian

// Write sends one frame, in one call of w.Write. Data above MaxData is an error.
func Write(w io.Writer, f Frame) error {
	if len(f.Data) > MaxData {
		return fmt.Errorf("frame of %d bytes, at most %d", len(f.Data), MaxData)
	}
	buf := make([]byte, headerLen, headerLen+len(f.Data))
	buf[0] = byte(f.Kind)
	binary.BigEndian.PutUint16(buf[1:], f.Payload)
	binary.BigEndian.PutUint32(buf[3:], uint32(len(f.Data)))
	_, err := w.Write(append(buf, f.Data...))
	return err
}

// WriteJSON sends a frame whose data is v as JSON.
func WriteJSON(w io.Writer, kind Kind, payload uint16, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return Write(w, Frame{Kind: kind, Payload: payload, Data: data})
}

// Read receives one frame. It returns io.EOF between frames and
// io.ErrUnexpectedEOF inside one; an unknown kind or a length above MaxData is
// an error, since the stream cannot be followed from there.
func Read(r io.Reader) (Frame, error) {
	var head [headerLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Kind: Kind(head[0]), Payload: binary.BigEndian.Uint16(head[1:])}
	n := binary.BigEndian.Uint32(head[3:])
	if f.Kind < KindBoot || f.Kind > KindDone || n > MaxData {
		return Frame{}, fmt.Errorf("no frame of this guest: kind %d, %d bytes", f.Kind, n)
	}
	f.Data = make([]byte, n)
	if _, err := io.ReadFull(r, f.Data); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return f, nil
}
