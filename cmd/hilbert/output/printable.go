package output

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// Printable returns a writer that passes text on to w and writes control characters, line ends and tabs aside, as \u001b. Names and messages come from a
// cluster's tenants and nodes: an escape sequence in one of them must not reach the terminal of whoever looks at it. The form is the one that JSON has for the
// same character. Bytes that are no UTF-8 become U+FFFD.
func Printable(w io.Writer) io.Writer {
	if p, ok := w.(*printable); ok {
		return p
	}
	return &printable{w: w}
}

type printable struct {
	w io.Writer
	// begun is the beginning of a character whose end the next Write brings.
	begun []byte
}

// Write implements io.Writer. It counts the bytes that it was given.
func (p *printable) Write(text []byte) (int, error) {
	rest := text
	if len(p.begun) > 0 {
		rest = append(p.begun, text...)
	}
	out := make([]byte, 0, len(rest))
	for len(rest) > 0 && utf8.FullRune(rest) {
		r, size := utf8.DecodeRune(rest)
		rest = rest[size:]
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	p.begun = append([]byte(nil), rest...)
	if _, err := p.w.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}
