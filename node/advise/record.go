package advise

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"hilbert.dev/hilbert/api/spec"
)

// recordFormat names the lines that a Recorder writes; another number after the slash is another form.
const recordFormat = "hilbert-node/2"

// MaxLine is the longest line of a record, in bytes: a thousand pods need half a MiB, and a header of eight NUMA nodes less than one.
const MaxLine = 4 << 20

// ErrRecord says that a record cannot be read, or not be written.
var ErrRecord = errors.New("advise: bad record")

// header is the first line: all that the laws know before the first tick.
type header struct {
	Format string `json:"format"`
	Params Params `json:"params"`
	Memory State  `json:"memory"`
}

// line is each other one.
type line struct {
	Observation *Observation `json:"observation"`
	Advice      *Advice      `json:"advice,omitempty"`
}

// Recorder writes what the laws saw and said, as lines of JSON. The caller's writer bounds how much is kept.
type Recorder struct {
	w io.Writer
	b bytes.Buffer
}

// NewRecorder writes the header. m is what Step will be given first, before it is.
func NewRecorder(w io.Writer, p *Params, m *State) (*Recorder, error) {
	r := &Recorder{w: w}
	return r, r.write(header{recordFormat, *p, *m})
}

// Record writes a tick. A line that would be longer than MaxLine, or that is no JSON because a number is infinite, is an ErrRecord and not written.
func (r *Recorder) Record(o *Observation, a *Advice) error { return r.write(line{o, a}) }

func (r *Recorder) write(v any) error {
	r.b.Reset()
	if err := json.NewEncoder(&r.b).Encode(v); err != nil { // it ends the line
		return fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if r.b.Len() > MaxLine {
		return fmt.Errorf("%w: a line of %d bytes, at most %d can be read again", ErrRecord, r.b.Len(), MaxLine)
	}
	_, err := r.w.Write(r.b.Bytes())
	return err
}

// Replayed is a tick of a record, run again.
type Replayed struct {
	// Line is its number in the record, from 1 on.
	Line        int
	Observation *Observation
	Advice      Advice
	// Recorded is what was advised then; nil: it is not in the record.
	Recorded *Advice
}

// Replay runs the laws over a record: with its own parameters, after adjust (if any) has changed them. Errors name the line; those of the record
// wrap ErrRecord. What each returns ends it.
func Replay(r io.Reader, adjust func(*Params) error, each func(Replayed) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxLine)
	h, n := header{}, 1
	if !lines.Scan() {
		return unread(lines.Err(), n)
	}
	var said struct{ Format string }
	if err := json.Unmarshal(lines.Bytes(), &said); err == nil && said.Format != recordFormat { // another form has other parameters
		return fmt.Errorf("%w: line 1: format %q is not %q", ErrRecord, said.Format, recordFormat)
	}
	if err := decode(lines.Bytes(), &h); err != nil {
		return fmt.Errorf("%w: line 1: %w; it should have the format, params and memory", ErrRecord, err)
	}
	if adjust != nil {
		if err := adjust(&h.Params); err != nil {
			return err
		}
	}
	if err := h.Params.Validate(); err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	for n++; lines.Scan(); n++ {
		l := line{}
		if err := decode(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrRecord, n, err)
		}
		if l.Observation == nil {
			return fmt.Errorf("%w: line %d: it has no observation", ErrRecord, n)
		}
		a := Step(l.Observation, &h.Params, &h.Memory)
		a.NUMANodes = slices.Clone(a.NUMANodes)
		if err := each(Replayed{n, l.Observation, a, l.Advice}); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return unread(err, n)
	}
	return nil
}

func unread(err error, n int) error {
	switch {
	case err == nil:
		return fmt.Errorf("%w: it is empty", ErrRecord)
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%w: line %d is longer than %d bytes", ErrRecord, n, MaxLine)
	}
	return fmt.Errorf("line %d: %w", n, err)
}

// decode reads one value, which must be all of the line. An input that the laws do not know would be missing from the replay.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("it is cut short")
		}
		return err
	}
	if d.More() {
		return errors.New("something follows the value")
	}
	return nil
}

// Change is a part of an advice that differs from another's.
type Change struct {
	// NUMANode is the index of the NUMA node; -1: of the node as a whole.
	NUMANode int    `json:"numaNode"`
	What     string `json:"what"`
	From     string `json:"from"`
	To       string `json:"to"`
	// Why is what bounds it.
	Why Reason `json:"why,omitempty"`
}

// Changes compares what is acted upon: what is lent and published, pools and suppression, and the reasons.
func Changes(from, to *Advice) []Change {
	var out []Change
	add := func(numa int, what string, a, b any, why Reason) {
		if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
			out = append(out, Change{numa, what, x, y, why})
		}
	}
	add(-1, "numaNodes", len(from.NUMANodes), len(to.NUMANodes), "")
	add(-1, "suppression", from.Suppression, to.Suppression, "")
	add(-1, "pools", from.Pools, to.Pools, "")
	for i := range to.NUMANodes {
		b, a := &to.NUMANodes[i], &NUMAAdvice{}
		if i < len(from.NUMANodes) {
			a = &from.NUMANodes[i]
		}
		add(i, "lend", a.Lend, b.Lend, b.LendReason)
		add(i, "cpu", a.CPU.Published, b.CPU.Published, b.CPU.Reason)
		add(i, "memory", a.Memory.Published, b.Memory.Published, b.Memory.Reason)
	}
	return out
}

// Same reports whether two advices are the same in all that was recorded but the terms.
func Same(a, b *Advice) bool {
	bare := func(from *Advice) string {
		c := *from
		c.NUMANodes = slices.Clone(from.NUMANodes)
		for i := range c.NUMANodes {
			c.NUMANodes[i].CPU.Terms, c.NUMANodes[i].Memory.Terms = nil, nil
		}
		text, err := json.Marshal(c)
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	return bare(a) == bare(b)
}

// String names a level as spec.Colocation does.
func (s Suppression) String() string {
	switch s {
	case SuppressNone:
		return spec.SuppressionNone
	case SuppressWeight:
		return spec.SuppressionWeight
	case SuppressFloor:
		return spec.SuppressionFloor
	case SuppressEvict:
		return spec.SuppressionEvict
	}
	return strconv.Itoa(int(s))
}
