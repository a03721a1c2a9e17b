package nearest

import (
	"testing"

	"pgregory.net/rapid"
)

func TestWord(t *testing.T) {
	known := []string{"maxInFlight", "maxAhead", "writeTimeout", "info", "on", "dry-run"}
	for word, want := range map[string]string{
		"maxInFligt": "maxInFlight", "maxinflight": "maxInFlight", "writeTiemout": "writeTimeout", "inof": "info", "On": "on",
		"dryrun": "dry-run", "magic": "", "": "", "loud": "", "ma": "",
	} {
		if got := Word(word, known); got != want {
			t.Errorf("Word(%q) is %q, want %q", word, got, want)
		}
	}
	if got := Hint("maxAhed", known); got != `; did you mean "maxAhead"?` {
		t.Error(got)
	}
}

// The distance is that of a metric between neighbours: symmetric, zero for equal words, and at most one for one edit.
func TestDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{1,20}`).Draw(t, "word")
		at := rapid.IntRange(0, len(word)-1).Draw(t, "at")
		without := word[:at] + word[at+1:]
		other := rapid.StringMatching(`[a-z]{0,20}`).Draw(t, "other")
		if distance(word, word) != 0 || distance(word, without) != 1 || distance(word, other) != distance(other, word) {
			t.Fatal(word, without, other)
		}
		if d := distance(word, other); d > max(len(word), len(other)) || d == 0 && word != other {
			t.Fatal(d)
		}
		if at+1 < len(word) && word[at] != word[at+1] {
			if swapped := word[:at] + word[at+1:at+2] + word[at:at+1] + word[at+2:]; distance(word, swapped) != 1 {
				t.Fatal(swapped)
			}
		}
	})
}
