// Package echo is the application behind every arm that decodes: it decodes a
// message, reads all of it, and encodes it again. It answers what a request
// costs inside the service, and nothing about how the request got there; the
// transports are packages arms and arms/loop.
//
// A *codec pass* is one decode of the request and one encode of the reply. One
// pass is what an echo needs; each further one repeats exactly that work and
// throws its result away, so that n passes cost n times the codec's CPU (and
// what it allocates) and leave the rest of the request alone.
package echo

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"

	"github.com/rungprof/rung/arms/internal/planted"
	"github.com/rungprof/rung/arms/payload"

	echov1 "github.com/rungprof/rung/arms/echo/v1"
)

const (
	// MaxBodyBytes is the largest JSON body an arm accepts.
	MaxBodyBytes = 64 << 10
	// MaxCodecPasses bounds Config.CodecPasses.
	MaxCodecPasses = 64
	// MaxPlant bounds Config.Plant.
	MaxPlant = time.Second
)

// Config is what a request costs beyond an echo.
type Config struct {
	CodecPasses int           // decodes and encodes per request, 1..MaxCodecPasses
	Plant       time.Duration // CPU to burn per request in planted.Burn, 0..MaxPlant
}

// Validate names the field that is out of range.
func (c Config) Validate() error {
	if c.CodecPasses < 1 || c.CodecPasses > MaxCodecPasses {
		return fmt.Errorf("codec passes %d: must be 1 to %d", c.CodecPasses, MaxCodecPasses)
	}
	if c.Plant < 0 || c.Plant > MaxPlant {
		return fmt.Errorf("planted CPU of %v per request: must be 0 to %v", c.Plant, MaxPlant)
	}
	return nil
}

// Service handles requests; all methods may be called at the same time.
type Service struct {
	passes         int
	burnIterations uint64
	proto          encoding.CodecV2
	handled        atomic.Uint64
	extraPasses    atomic.Uint64
	sink           atomic.Uint64 // keeps what touch and Burn computed from being optimised away
}

// New validates the configuration and calibrates the planted function, which
// takes a few milliseconds where there is one.
func New(c Config) (*Service, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	iterations, err := planted.Iterations(c.Plant)
	if err != nil {
		return nil, err
	}
	return &Service{
		passes:         c.CodecPasses,
		burnIterations: iterations,
		proto:          encoding.GetCodecV2(protocodec.Name),
	}, nil
}

// JSON answers a body with the encoding of what it decodes to. An error means
// that the body is not a payload.Hello; the client is to blame.
func (s *Service) JSON(body []byte) ([]byte, error) {
	hello, out, err := jsonPass(body)
	if err != nil {
		return nil, err
	}
	for range s.passes - 1 {
		if _, out, err = jsonPass(body); err != nil {
			return nil, err
		}
		s.extraPasses.Add(1)
	}
	s.handle(touchJSON(hello))
	return out, nil
}

// Proto answers a message that gRPC's codec has decoded with the one it is to
// encode; with a single pass that is the same message. Further passes go
// through that same codec, buffers' pool included.
func (s *Service) Proto(in *echov1.Hello) (*echov1.Hello, error) {
	for range s.passes - 1 {
		if err := s.protoPass(in); err != nil {
			return nil, err
		}
		s.extraPasses.Add(1)
	}
	s.handle(touchProto(in))
	return in, nil
}

// Handled is how many requests were answered since New, and how many codec
// passes were made beyond the first of each.
func (s *Service) Handled() (requests, extraPasses uint64) {
	return s.handled.Load(), s.extraPasses.Load()
}

func (s *Service) handle(touched uint64) {
	if s.burnIterations > 0 {
		touched += planted.Burn(s.burnIterations, touched)
	}
	s.sink.Store(touched)
	s.handled.Add(1)
}

func jsonPass(body []byte) (*payload.Hello, []byte, error) {
	hello := new(payload.Hello)
	if err := json.Unmarshal(body, hello); err != nil {
		return nil, nil, fmt.Errorf("decode the body as JSON: %w", err)
	}
	out, err := json.Marshal(hello)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the reply as JSON: %w", err)
	}
	return hello, out, nil
}

func (s *Service) protoPass(in *echov1.Hello) error {
	data, err := s.proto.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the message: %w", err)
	}
	defer data.Free()
	if err := s.proto.Unmarshal(data, new(echov1.Hello)); err != nil {
		return fmt.Errorf("decode the message: %w", err)
	}
	return nil
}
