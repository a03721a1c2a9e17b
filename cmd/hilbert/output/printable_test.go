package output

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// No control character gets through, however the text is cut into writes; text without any stays as it is.
func FuzzPrintable(f *testing.F) {
	f.Add([]byte("NODE  CPU\nn1\t8\n"), uint8(3))
	f.Add([]byte("\x1b]0;title\x07\x1b[2Jµ\u009b31m\x7f\r"), uint8(1))
	f.Add([]byte{0xc2, 0x9b, 0x9b, 0xff, 0xe2, 0x82}, uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, step uint8) {
		var whole, parts bytes.Buffer
		if n, err := Printable(&whole).Write(text); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
		w := Printable(&parts)
		for rest := text; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if whole.String() != parts.String() {
			t.Fatalf("%q in one, %q in parts", whole.String(), parts.String())
		}
		if !utf8.Valid(whole.Bytes()) {
			t.Fatalf("%q", whole.String())
		}
		dirty := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
		if i := strings.IndexFunc(whole.String(), dirty); i >= 0 {
			t.Fatalf("%q at %d", whole.String(), i)
		}
		if utf8.Valid(text) && strings.IndexFunc(string(text), dirty) < 0 && whole.String() != string(text) {
			t.Fatalf("%q became %q", text, whole.String())
		}
	})
}
