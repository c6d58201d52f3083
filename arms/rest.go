package arms

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/rungprof/rung/arms/echo"
)

// maxStreams is how many requests a client may have in flight on one HTTP/2
// connection: what the ladders' Jetty arm allows, and more than net/http's
// default of 250, so that the arm is not what bounds concurrency.
const maxStreams = 1024

// headerTimeout closes a connection that sends no complete request head within
// a minute of connecting, or of the head's first byte. Connections idle between
// requests stay: drivers keep theirs open from step to step.
const headerTimeout = time.Minute

// rest is net/http with one protocol enabled, the one the arm is named for.
type rest struct {
	server   *http.Server
	listener net.Listener
}

func newREST(h2c bool, handler http.Handler, listener net.Listener) *rest {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2c)
	protocols.SetUnencryptedHTTP2(h2c)
	return &rest{
		listener: listener,
		server: &http.Server{
			Handler:           handler,
			Protocols:         protocols,
			HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
			ReadHeaderTimeout: headerTimeout,
		},
	}
}

func (r *rest) serve() error {
	if err := r.server.Serve(r.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (r *rest) stop(ctx context.Context) error {
	if err := r.server.Shutdown(ctx); err != nil {
		return r.server.Close()
	}
	return nil
}

// echoHandler decodes and re-encodes the body.
func echoHandler(service *echo.Service) http.Handler {
	return routes(func(w http.ResponseWriter, body []byte) {
		reply, err := service.JSON(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		writeJSON(w, reply)
	})
}

// nullHandler answers the body's own bytes.
func nullHandler() http.Handler { return routes(writeJSON) }

func routes(answer func(http.ResponseWriter, []byte)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := readBody(w, r)
		if err != nil {
			status := http.StatusBadRequest
			if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, err.Error(), status)
			return
		}
		answer(w, body)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "ok\n")
	})
	return mux
}

// readBody reads at most echo.MaxBodyBytes, in one piece where the client said
// how long the body is.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > echo.MaxBodyBytes {
		return nil, &http.MaxBytesError{Limit: echo.MaxBodyBytes}
	}
	if r.ContentLength < 0 {
		return io.ReadAll(http.MaxBytesReader(w, r.Body, echo.MaxBodyBytes))
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	return body, err
}

func writeJSON(w http.ResponseWriter, body []byte) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}
