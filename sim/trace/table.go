package trace

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Bounds on what is read: far above any real trace, far below what would hurt.
const (
	// MaxLine is the longest line in bytes.
	MaxLine = 64 << 10
	// MaxRecords is the most records of one file.
	MaxRecords = 4 << 20
	// maxQuoted bounds how much of a bad value an Error repeats.
	maxQuoted = 40
)

// Error is a mistake in a file.
type Error struct {
	File   string
	Line   int    // 1 is the first; 0: the file as a whole
	Column string // the header's name, empty when no single column is to blame
	Want   string
	Got    string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Column != "" {
		fmt.Fprintf(&b, ": column %s", e.Column)
	}
	fmt.Fprintf(&b, ": want %s, found %s", e.Want, e.Got)
	return b.String()
}

// table reads a CSV file by the names in its header.
type table struct {
	file    string
	reader  *csv.Reader
	columns []string
	record  []string
	line    int
	records int
	err     error
}

// newTable reads the header and checks that the required columns are in it. Other columns may be missing or unknown.
func newTable(file string, r io.Reader, required ...string) (*table, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	if mark, err := buffered.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		if _, err := buffered.Discard(len(mark)); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
	}
	t := &table{file: file, reader: csv.NewReader(&lineLimiter{r: buffered})}
	t.reader.FieldsPerRecord = -1
	t.reader.ReuseRecord = true
	header, err := t.reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, &Error{File: file, Want: "a header with the columns " + strings.Join(required, ", "), Got: "an empty file"}
	}
	if err != nil {
		return nil, t.readError(err)
	}
	for _, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		if name != "" && slices.Contains(t.columns, name) {
			return nil, &Error{file, 1, name, "each column once in the header", "it twice"}
		}
		t.columns = append(t.columns, name)
	}
	for _, name := range required {
		if !slices.Contains(t.columns, name) {
			return nil, &Error{file, 1, name, "it in the header", quote(strings.Join(t.columns, ","))}
		}
	}
	return t, nil
}

// next reads the next record. It answers false at the end and on a mistake, which t.err then holds.
func (t *table) next() bool {
	if t.err != nil {
		return false
	}
	record, err := t.reader.Read()
	if errors.Is(err, io.EOF) {
		return false
	}
	if err != nil {
		t.err = t.readError(err)
		return false
	}
	t.record = record
	t.line, _ = t.reader.FieldPos(0)
	t.records++
	if len(record) != len(t.columns) {
		t.fail("", fmt.Sprintf("%d fields as in the header", len(t.columns)), strconv.Itoa(len(record)))
		return false
	}
	if t.records > MaxRecords {
		t.fail("", fmt.Sprintf("at most %d records", MaxRecords), "more")
		return false
	}
	return true
}

func (t *table) readError(err error) error {
	var syntax *csv.ParseError
	var long *lineTooLong
	switch {
	case errors.As(err, &long):
		return &Error{File: t.file, Line: long.line, Want: fmt.Sprintf("lines of at most %d bytes", MaxLine), Got: "a longer one"}
	case errors.As(err, &syntax):
		return &Error{File: t.file, Line: syntax.Line, Want: "comma-separated values", Got: syntax.Err.Error()}
	}
	return fmt.Errorf("read %s: %w", t.file, err)
}

// fail records the first mistake.
func (t *table) fail(column, want, got string) {
	if t.err == nil {
		t.err = &Error{t.file, t.line, column, want, got}
	}
}

// text returns a field, empty when the file has no such column.
func (t *table) text(column string) string {
	i := slices.Index(t.columns, column)
	if i < 0 {
		return ""
	}
	return strings.TrimSpace(t.record[i])
}

// name returns a field that must not be empty.
func (t *table) name(column string) string {
	text := t.text(column)
	if text == "" {
		t.fail(column, "a name", "nothing")
	}
	if len(text) > maxName {
		t.fail(column, fmt.Sprintf("a name of at most %d bytes", maxName), fmt.Sprintf("%d bytes", len(text)))
	}
	return strings.Clone(text) // the record's memory is reused
}

// maxName is the longest name of a Kubernetes object.
const maxName = 253

// whole returns a field as a whole number from low to high.
func (t *table) whole(column string, low, high int64) int64 {
	text := t.text(column)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		t.fail(column, fmt.Sprintf("a whole number from %d to %d", low, high), quote(text))
		return low
	}
	return n
}

// scaled returns a field, a decimal number from 0 to high, times scale and rounded.
func (t *table) scaled(column string, high, scale float64) int64 {
	text := t.text(column)
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x <= high) { // NaN is in no range
		t.fail(column, fmt.Sprintf("a number from 0 to %g", high), quote(text))
		return 0
	}
	return int64(math.Round(x * scale))
}

// instant returns a field in seconds as nanoseconds, of which milliseconds count; absent is for an empty one.
func (t *table) instant(column string, absent int64) int64 {
	if t.text(column) == "" {
		return absent
	}
	return t.scaled(column, maxSeconds, 1000) * 1_000_000
}

// maxSeconds is the latest instant of a trace: a hundred years.
const maxSeconds = 100 * 366 * 24 * 3600

// life reads the columns that say when a task comes and goes.
func (t *table) life(created, deleted string) (from, to int64) {
	from, to = t.instant(created, 0), t.instant(deleted, Never)
	if to != Never && to < from {
		t.fail(deleted, fmt.Sprintf("an instant not before %s (%s)", created, t.text(created)), quote(t.text(deleted)))
	}
	return from, to
}

func quote(text string) string {
	if text == "" {
		return "nothing"
	}
	if len(text) > maxQuoted {
		return fmt.Sprintf("%q… (%d bytes)", text[:maxQuoted], len(text))
	}
	return strconv.Quote(text)
}

// unique remembers names and where they stood.
type unique map[string]int

func (u unique) add(t *table, column, name string) {
	if line, ok := u[name]; ok {
		t.fail(column, "each name once", fmt.Sprintf("%q, which stands on line %d already", name, line))
		return
	}
	u[name] = t.line
}

// lineLimiter fails when a line is longer than MaxLine, so that no line has to be held in memory to be refused.
type lineLimiter struct {
	r    io.Reader
	line int // complete lines so far
	size int // bytes of the current one
}

// lineTooLong is the failure of a lineLimiter.
type lineTooLong struct{ line int }

func (e *lineTooLong) Error() string { return fmt.Sprintf("line %d is too long", e.line) }

func (l *lineLimiter) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			l.size += len(rest)
			break
		}
		if l.size+i > MaxLine {
			l.size += i
			break
		}
		l.line, l.size, rest = l.line+1, 0, rest[i+1:]
	}
	if l.size > MaxLine {
		return 0, &lineTooLong{l.line + 1}
	}
	return n, err
}
