package scenario

import (
	"fmt"
	"strings"
)

// Bounds on a file: it is written by people.
const (
	MaxLines = 10_000
	MaxPods  = 100_000
	MaxNodes = 20_000
	// MaxPlaces is how many places one Reservation has at the most, by its definition.
	MaxPlaces = 256
)

const dashes = "----"

// File is one scenario.
type File struct {
	Name   string
	Blocks []Block
}

// Block is commands, and what they must print.
type Block struct {
	Line     int // of its first command
	Commands []string
	Steps    []Step
	// Checked: what they print must be Want, whose lines end with newlines.
	Checked bool
	Want    string
}

// Error is a mistake in a file.
type Error struct {
	File string
	Line int
	What string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.What) }

// Parse reads a scenario. The error is an *Error.
func Parse(name, text string) (*File, error) {
	f := &File{Name: name}
	p := newParser()
	lines := strings.Split(text, "\n")
	if len(lines) > MaxLines {
		return nil, &Error{name, MaxLines, fmt.Sprintf("more than %d lines", MaxLines)}
	}
	var block *Block
	for i, line := range lines {
		line = strings.TrimRight(line, " \t\r")
		switch {
		case line == "":
			block = nil
			continue
		case block == nil:
			f.Blocks = append(f.Blocks, Block{Line: i + 1})
			block = &f.Blocks[len(f.Blocks)-1]
		}
		switch {
		case block.Checked:
			block.Want += line + "\n"
			continue
		case line == dashes:
			block.Checked = true
			continue
		}
		block.Commands = append(block.Commands, line)
		step, err := p.command(line)
		if err != nil {
			return nil, &Error{name, i + 1, err.Error()}
		}
		if step != nil {
			block.Steps = append(block.Steps, step)
		}
	}
	return f, nil
}

// Format writes the file with what its blocks printed.
func (f *File) Format(printed []string) string {
	var b strings.Builder
	for i := range f.Blocks {
		if i > 0 {
			b.WriteString("\n")
		}
		for _, line := range f.Blocks[i].Commands {
			b.WriteString(line + "\n")
		}
		if i < len(printed) && (printed[i] != "" || f.Blocks[i].Checked) {
			b.WriteString(dashes + "\n" + printed[i])
		}
	}
	return b.String()
}

// Differs says where what was printed first differs from what the file wants; empty where nowhere.
func (f *File) Differs(printed []string) string {
	for i := range f.Blocks {
		b := &f.Blocks[i]
		got := ""
		if i < len(printed) {
			got = printed[i]
		}
		if b.Checked && b.Want != got {
			return fmt.Sprintf("%s:%d: found\n%swant\n%s", f.Name, b.Line, got, b.Want)
		}
	}
	return ""
}
