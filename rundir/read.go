package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/encoding/protojson"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// Limits on the size of each file read, bytes. They stop a wrong or damaged
// file from filling the memory; a ladder's own files stay far below.
const (
	MaxRunBytes     = 1 << 20
	MaxClientBytes  = 4 << 20
	MaxRecordBytes  = 64 << 20
	MaxProfileBytes = 256 << 20
	MaxHlogBytes    = 64 << 20
)

// ReadRun reads run.json. An unknown field, another schema version and
// anything after the value are errors.
func ReadRun(r io.Reader) (Run, error) {
	var run Run
	if err := decodeStrict(r, &run); err != nil {
		return Run{}, err
	}
	if err := run.Validate(); err != nil {
		return Run{}, err
	}
	return run, nil
}

// ReadClient reads client.json, as strictly as ReadRun.
func ReadClient(r io.Reader) (*ClientStep, error) {
	var c ClientStep
	if err := decodeStrict(r, &c); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &c, nil
}

// ReadRecord reads record.json, as strictly as ReadRun.
func ReadRecord(r io.Reader) (*rungv1.StepRecord, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var rec rungv1.StepRecord
	if err := protojson.Unmarshal(data, &rec); err != nil {
		return nil, err
	}
	if w := rec.GetWindow(); w.GetEndMonoNs() < w.GetStartMonoNs() {
		return nil, fmt.Errorf("window.endMonoNs %d lies before window.startMonoNs %d", w.GetEndMonoNs(), w.GetStartMonoNs())
	}
	return &rec, nil
}

func readAll(r io.Reader) ([]byte, error) { return io.ReadAll(r) }

// readFile opens a regular file and parses at most limit bytes of it. Every
// error names the file.
func readFile[T any](path string, limit int64, parse func(io.Reader) (T, error)) (T, error) {
	var zero T
	// Stat first: opening a FIFO would wait for its writer.
	fi, err := os.Stat(path)
	if err != nil {
		return zero, err
	}
	if !fi.Mode().IsRegular() {
		return zero, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return zero, err
	}
	defer f.Close()
	v, err := parse(&limitedReader{r: f, left: limit, limit: limit})
	if err != nil {
		return zero, fmt.Errorf("read %s: %w", path, err)
	}
	return v, nil
}

// limitedReader fails where io.LimitedReader would pretend the file ended.
type limitedReader struct {
	r           io.Reader
	left, limit int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		var one [1]byte
		if n, err := l.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("larger than the limit of %d bytes", l.limit)
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	return n, err
}

func decodeStrict(r io.Reader, v any) error {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("file is empty")
		}
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// encodeJSON writes indented JSON with a final newline. A number that JSON
// cannot hold (NaN, infinity) is an error.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
