// Package jsonstream writes and reads one large JSON object without holding it: field by field, and the elements of a list one by one.
//
// Reading is strict. A field that is not known stands for something that would be lost, one that stands twice for a mistake in merging, and
// one that is missing for a file that was cut short; all three are errors.
//
// Invariants: what Writer wrote Read takes, and equal values are equal bytes; an element of a list stands on a line of its own, so that
// people can look for it. After an error a Writer writes nothing more.
//
// It knows no format: names and types are the caller's.
package jsonstream

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// Writer writes one object.
type Writer struct {
	w      *bufio.Writer
	fields int
	err    error
}

// NewWriter returns a Writer to w. End flushes it.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriter(w)} }

func (o *Writer) text(s string) {
	if o.err == nil {
		_, o.err = o.w.WriteString(s)
	}
}

func (o *Writer) name(name string) {
	if o.fields == 0 {
		o.text("{\n")
	} else {
		o.text(",\n")
	}
	o.fields++
	o.text(strconv.Quote(name) + ": ")
}

func (o *Writer) value(v any) {
	if o.err != nil {
		return
	}
	data, err := json.Marshal(v)
	if err != nil {
		o.err = err
		return
	}
	_, o.err = o.w.Write(data)
}

// Field writes a field.
func (o *Writer) Field(name string, v any) {
	o.name(name)
	o.value(v)
}

// List writes a field that is a list.
func (o *Writer) List(name string, length int, element func(i int) any) {
	o.name(name)
	o.text("[")
	for i := range length {
		if i > 0 {
			o.text(",")
		}
		o.text("\n")
		o.value(element(i))
	}
	o.text("]")
}

// Object writes a field that is itself written field by field.
func (o *Writer) Object(name string, write func(*Writer)) {
	o.name(name)
	inner := Writer{w: o.w, err: o.err}
	write(&inner)
	inner.text("\n}")
	o.err = inner.err
}

// End ends the object and returns the first error of all.
func (o *Writer) End() error {
	o.text("\n}\n")
	if o.err != nil {
		return o.err
	}
	return o.w.Flush()
}

// Fields says how to read each field of an object.
type Fields map[string]func() error

// Read reads an object in which each of the fields stands once, in any order. It uses up the map.
func Read(decoder *json.Decoder, fields Fields) error {
	decoder.DisallowUnknownFields()
	if err := expect(decoder, '{'); err != nil {
		return err
	}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return whole(err)
		}
		name, ok := token.(string)
		read := fields[name]
		if !ok || read == nil {
			return fmt.Errorf("field %q is not known, or stands twice", name)
		}
		delete(fields, name)
		if err := read(); err != nil {
			return fmt.Errorf("%s: %w", name, whole(err))
		}
	}
	if err := expect(decoder, '}'); err != nil {
		return err
	}
	if len(fields) > 0 {
		return fmt.Errorf("field %q is missing", slices.Sorted(maps.Keys(fields))[0])
	}
	return nil
}

// Value reads a field into v.
func Value(decoder *json.Decoder, v any) func() error {
	return func() error { return decoder.Decode(v) }
}

// List reads a field that is a list, element by element.
func List[T any](decoder *json.Decoder, take func(*T) error) func() error {
	return func() error {
		if err := expect(decoder, '['); err != nil {
			return err
		}
		for i := 0; decoder.More(); i++ {
			var element T
			err := decoder.Decode(&element)
			if err == nil {
				err = take(&element)
			}
			if err != nil {
				return fmt.Errorf("element %d: %w", i, whole(err))
			}
		}
		return expect(decoder, ']')
	}
}

func expect(decoder *json.Decoder, want json.Delim) error {
	token, err := decoder.Token()
	if err != nil {
		return whole(err)
	}
	if token != want {
		return fmt.Errorf("found %v where %v should be", token, want)
	}
	return nil
}

// whole says that the input ended too early, where the decoder says only that it ended.
func whole(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends too early")
	}
	return err
}
