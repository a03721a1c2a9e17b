package replica

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// MaxMessage bounds the bytes of one message.
const MaxMessage = 64 << 20

// maxElements bounds the elements of one list, maxDepth how deep lists and structs nest.
const (
	maxElements = 1 << 20
	maxDepth    = 24
)

// Codec writes and reads values.
type Codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

// NewCodec returns a Codec.
func NewCodec() (*Codec, error) {
	enc, err := cbor.EncOptions{}.EncMode()
	if err != nil {
		return nil, fmt.Errorf("prepare to write CBOR: %w", err)
	}
	dec, err := cbor.DecOptions{
		MaxNestedLevels: maxDepth, MaxArrayElements: maxElements, MaxMapPairs: maxElements, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		DupMapKey: cbor.DupMapKeyEnforcedAPF, ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
	}.DecMode()
	if err != nil {
		return nil, fmt.Errorf("prepare to read CBOR: %w", err)
	}
	return &Codec{enc, dec}, nil
}

// Encode writes a value.
func (c *Codec) Encode(v any) ([]byte, error) {
	text, err := c.enc.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write %T: %w", v, err)
	}
	return text, nil
}

// Decode reads what Encode wrote.
func (c *Codec) Decode(text []byte, v any) error {
	if len(text) > MaxMessage {
		return fmt.Errorf("read %T: %d bytes; at most %d are read", v, len(text), MaxMessage)
	}
	if err := c.dec.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read %T: %w", v, err)
	}
	return nil
}

// Schema is a digest of all that a message of some types can say: the names, order and types of all fields, however deep. Two processes with one Schema read alike what the other writes.
func Schema(messages ...any) string {
	var w strings.Builder
	seen := make(map[reflect.Type]bool)
	for _, m := range messages {
		describe(&w, reflect.TypeOf(m), seen)
	}
	sum := sha256.Sum256([]byte(w.String()))
	return hex.EncodeToString(sum[:8])
}

func describe(w *strings.Builder, t reflect.Type, seen map[reflect.Type]bool) {
	fmt.Fprintf(w, "%s %s;", t.String(), t.Kind())
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		describe(w, t.Elem(), seen)
	case reflect.Array:
		fmt.Fprintf(w, "%d ", t.Len())
		describe(w, t.Elem(), seen)
	case reflect.Map:
		describe(w, t.Key(), seen)
		describe(w, t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			fmt.Fprintf(w, "%s %s ", f.Name, f.Tag)
			describe(w, f.Type, seen)
		}
	default: // the kind says all
	}
}
