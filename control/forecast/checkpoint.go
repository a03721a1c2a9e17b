package forecast

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"time"
)

// MaxCheckpoint bounds a Checkpoint, in bytes, for as many loads as a series of 5-minute steps over four weeks has; a load of whole numbers takes a sixth of it.
const MaxCheckpoint = 48 << 10

// ErrCheckpoint says that a checkpoint cannot be trusted, and its text why. Whoever meets it begins a series anew.
var ErrCheckpoint = errors.New("the checkpoint is refused")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCheckpoint}, args...)...)
}

const (
	checkpointVersion = 1
	checkpointHead    = 5 // the version and a checksum of the rest
	maxPeriods        = 8
	float32Bytes      = 4
)

// written is the beginning of a checkpoint.
type written struct {
	Step, Lead     int64
	Newest         int64
	Same           writtenTrack
	Loads, Periods uint32
}

type writtenTrack struct{ Sum, Weight float64 }

// writtenPeriod is a period; its errors and what waits follow.
type writtenPeriod struct {
	Steps           uint32
	Track           writtenTrack
	Errors, Waiting uint32
}

// writtenForecast is a forecast that waits for its time.
type writtenForecast struct {
	Until              int64
	Middle, Then, Most float32
}

// Checkpoint is a series as bytes, from which Restore makes one that predicts the same. Loads are kept as 32-bit floats: whole numbers up to 2^24 come back as they were.
func (s *Series) Checkpoint() ([]byte, error) {
	loads := s.loads[max(0, len(s.loads)-s.window()):]
	var body bytes.Buffer
	packed, err := flate.NewWriter(&body, flate.DefaultCompression)
	if err != nil {
		return nil, fmt.Errorf("write a forecast's checkpoint: %w", err)
	}
	parts := []any{
		&written{
			Step: int64(s.params.Step), Lead: int64(s.params.Lead), Newest: s.newest, Same: writtenTrack{s.same.sum, s.same.weight},
			Loads: uint32(len(loads)), Periods: uint32(len(s.periods)),
		},
		planes(loads),
	}
	for i := range s.periods {
		p := &s.periods[i]
		parts = append(parts, &writtenPeriod{Steps: uint32(p.steps), Track: writtenTrack{p.track.sum, p.track.weight}, Errors: uint32(len(p.errors)), Waiting: uint32(len(p.waiting))}, planes(p.errors))
		for _, w := range p.waiting {
			parts = append(parts, &writtenForecast{Until: w.until, Middle: float32(w.middle), Then: float32(w.then), Most: float32(w.most)})
		}
	}
	for _, part := range parts {
		if err := binary.Write(packed, binary.LittleEndian, part); err != nil {
			return nil, fmt.Errorf("write a forecast's checkpoint: %w", err)
		}
	}
	if err := packed.Close(); err != nil {
		return nil, fmt.Errorf("write a forecast's checkpoint: %w", err)
	}
	out := binary.LittleEndian.AppendUint32([]byte{checkpointVersion}, crc32.ChecksumIEEE(body.Bytes()))
	if out = append(out, body.Bytes()...); len(out) > MaxCheckpoint {
		return nil, fmt.Errorf("write a forecast's checkpoint: it has %d bytes, at most %d can be read again", len(out), MaxCheckpoint)
	}
	return out, nil
}

// planes are numbers as 32-bit floats, all first bytes before all second ones: so they compress well.
func planes(values []float64) []byte {
	out := make([]byte, float32Bytes*len(values))
	for i, v := range values {
		bits := math.Float32bits(float32(v))
		for plane := range float32Bytes {
			out[plane*len(values)+i] = byte(bits >> (8 * plane))
		}
	}
	return out
}

func unplanes(data []byte) []float64 {
	n := len(data) / float32Bytes
	out := make([]float64, n)
	for i := range out {
		bits := uint32(0)
		for plane := range float32Bytes {
			bits |= uint32(data[plane*n+i]) << (8 * plane)
		}
		out[i] = float64(math.Float32frombits(bits))
	}
	return out
}

// Restore makes a series of a checkpoint. If the lead is another one than then, its forecasts are made and checked anew from the loads. What is damaged, of another step or of other periods, of the
// future, or so old that half of what was trusted is forgotten (Params.HalfLife), is an ErrCheckpoint that says so.
func Restore(p *Params, data []byte, now time.Time) (*Series, error) {
	r, err := unpack(data)
	if err != nil {
		return nil, err
	}
	s := NewSeries(p)
	var head written
	if err := r.read(&head); err != nil {
		return nil, err
	}
	step := now.UnixNano() / int64(p.Step)
	switch {
	case head.Step != int64(p.Step) || int(head.Periods) != len(s.periods):
		return nil, refused("it has %d periods at steps of %s: want %d and %s", head.Periods, time.Duration(head.Step), len(s.periods), p.Step)
	case int(head.Loads) > s.window() || head.Loads == 0:
		return nil, refused("it has %d loads: want 1 to %d", head.Loads, s.window())
	case head.Newest > step:
		return nil, refused("its last load is of %s, which is not yet", time.Unix(0, head.Newest*head.Step).UTC().Format(time.RFC3339))
	case time.Duration(step-head.Newest) > p.HalfLife/p.Step:
		return nil, refused("its last load is of %s, more than %s ago", time.Unix(0, head.Newest*head.Step).UTC().Format(time.RFC3339), p.HalfLife)
	}
	if s.loads, err = r.numbers(int(head.Loads)); err != nil {
		return nil, err
	}
	for _, load := range s.loads {
		if load < 0 || math.IsInf(load, 0) {
			return nil, refused("%g is no load", load)
		}
	}
	s.newest, s.same = head.Newest, track{head.Same.Sum, head.Same.Weight}
	for i := range s.periods {
		if err := r.period(s, &s.periods[i], head.Lead); err != nil {
			return nil, err
		}
	}
	if !s.same.sound() || r.rest() {
		return nil, refused("its numbers are not those of a series")
	}
	if head.Lead != int64(p.Lead) {
		return s.replayed(), nil
	}
	return s, nil
}

// replayed is a series with the same loads whose forecasts are made anew.
func (s *Series) replayed() *Series {
	out := NewSeries(s.params)
	for i, load := range s.loads {
		out.See(load, time.Unix(0, (s.newest-int64(len(s.loads)-1-i))*int64(s.params.Step)))
	}
	return out
}

func (t *track) sound() bool {
	return t.sum >= 0 && t.weight >= 0 && !math.IsInf(t.sum, 0) && !math.IsInf(t.weight, 0)
}

// unpacked reads the parts of a checkpoint.
type unpacked struct{ from *bytes.Reader }

// unpack checks version and checksum, and unpacks the rest. What unpacks to more than any checkpoint has is refused.
func unpack(data []byte) (*unpacked, error) {
	switch {
	case len(data) <= checkpointHead || len(data) > MaxCheckpoint:
		return nil, refused("it has %d bytes: want more than %d and at most %d", len(data), checkpointHead, MaxCheckpoint)
	case data[0] != checkpointVersion:
		return nil, refused("its version is %d: want %d", data[0], checkpointVersion)
	case crc32.ChecksumIEEE(data[checkpointHead:]) != binary.LittleEndian.Uint32(data[1:]):
		return nil, refused("it is damaged: its checksum is another")
	}
	most := int64(float32Bytes * 2 * (maxSteps + maxPeriods*maxErrors))
	body, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data[checkpointHead:])), most+1))
	if err != nil || int64(len(body)) > most {
		return nil, refused("it does not unpack to at most %d bytes", most)
	}
	return &unpacked{bytes.NewReader(body)}, nil
}

func (r *unpacked) read(into any) error {
	if err := binary.Read(r.from, binary.LittleEndian, into); err != nil {
		return refused("it is cut short")
	}
	return nil
}

func (r *unpacked) rest() bool { return r.from.Len() > 0 }

func (r *unpacked) numbers(n int) ([]float64, error) {
	if n*float32Bytes > r.from.Len() {
		return nil, refused("it is cut short")
	}
	data := make([]byte, n*float32Bytes)
	if err := r.read(data); err != nil {
		return nil, err
	}
	return unplanes(data), nil
}

// period reads one period of a series that was made with a lead.
func (r *unpacked) period(s *Series, p *period, lead int64) (err error) {
	var head writtenPeriod
	if err := r.read(&head); err != nil {
		return err
	}
	if int(head.Steps) != p.steps || int(head.Errors) > s.params.Errors || int64(head.Waiting) > lead/int64(s.params.Step)+2 {
		return refused("a period of %d steps has %d errors, and %d forecasts wait: want %d steps and at most %d errors", head.Steps, head.Errors, head.Waiting, p.steps, s.params.Errors)
	}
	p.track = track{head.Track.Sum, head.Track.Weight}
	if p.errors, err = r.numbers(int(head.Errors)); err != nil {
		return err
	}
	for range head.Waiting {
		var w writtenForecast
		if err := r.read(&w); err != nil {
			return err
		}
		if !(w.Middle >= 0 && w.Then >= 0 && w.Most >= 0) {
			return refused("its numbers are not those of a series")
		}
		p.waiting = append(p.waiting, waiting{until: w.Until, middle: float64(w.Middle), then: float64(w.Then), most: float64(w.Most)})
	}
	if slices.ContainsFunc(p.errors, math.IsNaN) || !p.track.sound() {
		return refused("its numbers are not those of a series")
	}
	return nil
}
