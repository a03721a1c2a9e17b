package doctest

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// parse takes as much of the shell's grammar apart as the pages need: words with quotes, a comment, &&, cd, > FILE.
func parse(typed string) ([]*Command, error) {
	words, err := split(typed)
	if err != nil {
		return nil, err
	}
	var out []*Command
	folder := ""
	c := &Command{}
	end := func() {
		switch {
		case len(c.Words) == 2 && c.Words[0] == "cd":
			folder = c.Words[1]
		case len(c.Words) > 0 && c.Words[0] != "export":
			c.Folder = folder
			out = append(out, c)
		}
		c = &Command{}
	}
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case word == "&&":
			end()
		case word == ">" && i+1 < len(words):
			i++
			c.Stdout = words[i]
		case word == "|" || word == "<" || word == ">>" || word == ";" || word == "||" || word == "&":
			return nil, fmt.Errorf("%q: the test of the pages knows no %q; write two commands, or mark the block as not run", typed, word)
		case len(c.Words) == 0 && assignment.MatchString(word):
		default:
			c.Words = append(c.Words, word)
		}
	}
	end()
	return out, nil
}

// split splits a line into words as a shell does, up to a comment.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	inside := false // of a word
	end := func() {
		if inside {
			words = append(words, word.String())
		}
		word.Reset()
		inside = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inside = r, true
		case r == ' ' || r == '\t':
			end()
		case r == '#' && !inside:
			return words, nil
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed: " + line)
	}
	end()
	return words, nil
}
