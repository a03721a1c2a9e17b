// Package nearest finds the word that somebody probably meant, for messages about a word that is not known.
//
// Word compares by the number of letters that must be changed, left out, added or swapped, and does not mind the case. A word that differs in more than a third of its
// letters was not meant: a wrong suggestion costs more than none. For example, Word("maxInFligt", fields) is "maxInFlight", and Word("magic", fields) is "".
//
// Invariants: the answer is one of the known words or empty, the order of the known words decides between equals, and the work is bounded by maxLetters for each word.
// It is no search: it knows nothing of meanings.
package nearest

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxLetters bounds the words that are compared; longer ones are no typing mistakes of a field's name.
const maxLetters = 100

// Word returns the known word that is nearest to word, or "" if none is near.
func Word(word string, known []string) string {
	best, least := "", utf8.RuneCountInString(word)/3+1
	for _, k := range known {
		if d := distance(word, k); d < least || best == "" && d == least && d == 1 {
			best, least = k, d
		}
	}
	return best
}

// Hint returns the end of a message: "; did you mean ...?", or nothing if no known word is near.
func Hint(word string, known []string) string {
	if near := Word(word, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// distance is how many letters have to be changed, left out, added or swapped with their neighbour.
func distance(word, other string) int {
	a, b := []rune(strings.ToLower(word)), []rune(strings.ToLower(other))
	if len(a) > maxLetters || len(b) > maxLetters {
		return maxLetters
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
