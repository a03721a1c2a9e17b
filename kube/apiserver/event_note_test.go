package apiserver

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A note is never longer than the API server takes, as it is written: no letter is cut in two.
func TestEventNote(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("a", MaxEventNote), strings.Repeat("a", MaxEventNote+1), strings.Repeat("ä", MaxEventNote), "a" + strings.Repeat("ä", MaxEventNote)} {
		note := EventNote(text)
		if len(note) > MaxEventNote || !utf8.ValidString(note) || !strings.HasPrefix(text, note) || len(text) <= MaxEventNote && note != text || len(text) > MaxEventNote && len(note) < MaxEventNote-utf8.UTFMax {
			t.Errorf("of %d bytes: %d, valid %v", len(text), len(note), utf8.ValidString(note))
		}
	}
}
