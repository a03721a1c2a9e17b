// Package doctest reads what the documentation tells people to type, so that tests can run it. The pages are README.md, the tutorials and the
// how-tos; a test here runs the commands of hilbert and decodes the manifests, and lab/docs sends manifests and kubectl commands to a real
// API server.
//
// The rules for a page: what people type stands in a fenced block. A block `yaml` holds whole objects, or the fields of one pod or of
// hilbertd's configuration that the page is about. A block `console` holds commands, each after "$ ", with the output below it; a line "..."
// in an output stands for any lines. For example:
//
//	Save this as `huge.yaml`:
//
//	```yaml
//	apiVersion: v1
//	...
//	```
//
//	```console
//	$ hilbert explain pod default/huge      # where it is, or why it waits
//	```
//
// `<!-- file: NAME -->` above a block saves it for the commands that follow, and so does a sentence "Save this as `NAME`:". `<!-- not run:
// REASON -->` above a block says why no test runs it; the test lists these. In a command, words in brackets are optional and left out;
// NAMESPACE/NAME, NAME and PATH stand for anything.
//
// Invariants: the same pages give the same blocks; no block is skipped without a reason. It is test support: it runs nothing itself.
package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Page is a Markdown file, by its path from the root of the tree.
type Page struct {
	Name   string
	Blocks []*Block
}

// Block is a fenced block.
type Block struct {
	Page     string
	Line     int    // of its fence
	Language string // what stands behind the fence
	Text     string
	File     string // the name under which it is saved
	NotRun   string // why no test runs it
	Indented bool   // it is no fenced block, but commands that are indented
}

// At is where the block stands.
func (b *Block) At() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// Pages reads README.md, docs/tutorials and docs/how-to.
func Pages(t testing.TB, root string) []*Page {
	t.Helper()
	names := []string{"README.md"}
	for _, folder := range []string{"tutorials", "how-to"} {
		found, err := filepath.Glob(filepath.Join(root, "docs", folder, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			names = append(names, filepath.Join("docs", folder, filepath.Base(name)))
		}
	}
	var pages []*Page
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, &Page{Name: name, Blocks: Blocks(name, string(text))})
	}
	return pages
}

var (
	marker   = regexp.MustCompile(`^\s*<!--\s*(file|not run):\s*(.*?)\s*-->\s*$`)
	saveAs   = regexp.MustCompile("[Ss]ave (?:this|it) as `([^`]+)`")
	indented = regexp.MustCompile(`^    (\$ |(bin/)?(hilbert|hilbertd|hilbert-lab|kubectl|make)( |$))`)
)

// Blocks finds the fenced blocks of a page, and commands that are indented instead.
func Blocks(name, text string) []*Block {
	var blocks []*Block
	var open *Block
	next := &Block{} // what markers say of the next block
	margin := ""
	for i, line := range strings.Split(text, "\n") {
		fence, language, isFence := strings.Cut(strings.TrimRight(line, " "), "```")
		switch {
		case isFence && strings.TrimSpace(fence) == "" && open == nil:
			open, next = next, &Block{}
			open.Page, open.Line, open.Language = name, i+1, language
			margin = fence
		case open != nil && isFence && strings.TrimSpace(line) == "```":
			blocks, open = append(blocks, open), nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, margin) + "\n"
		case indented.MatchString(line):
			blocks = append(blocks, &Block{Page: name, Line: i + 1, Text: line, Indented: true})
		case marker.MatchString(line):
			if m := marker.FindStringSubmatch(line); m[1] == "file" {
				next.File = m[2]
			} else {
				next.NotRun = m[2]
			}
		case strings.TrimSpace(line) != "":
			next = &Block{}
			if m := saveAs.FindStringSubmatch(line); m != nil {
				next.File = m[1]
			}
		}
	}
	return blocks
}

// Command is one that people type.
type Command struct {
	Line   int
	Words  []string // without environment, redirection and comment
	Folder string   // where cd went before it
	Stdout string   // the file that its output goes to
	Output string   // what the page says that it prints
}

// String is the command as one line.
func (c *Command) String() string { return strings.Join(c.Words, " ") }

// Program is the name of what runs: bin/hilbert and hilbert are one, and so are kubectl and hilbert-lab kubectl.
func (c *Command) Program() string {
	if len(c.Words) == 0 {
		return ""
	}
	program := strings.TrimPrefix(c.Words[0], "bin/")
	if program == "hilbert-lab" && len(c.Words) > 1 && c.Words[1] == "kubectl" {
		return "kubectl"
	}
	return program
}

// Args are the words behind the program, without those in brackets.
func (c *Command) Args() []string {
	words := c.Words[1:]
	if c.Program() == "kubectl" && c.Words[0] != "kubectl" {
		words = c.Words[2:]
	}
	var args []string
	optional := false
	for _, word := range words {
		optional = optional || strings.HasPrefix(word, "[")
		if !optional {
			args = append(args, word)
		}
		optional = optional && !strings.HasSuffix(word, "]")
	}
	return args
}

// Commands takes a console block apart.
func (b *Block) Commands() ([]*Command, error) {
	var commands []*Command
	lines := strings.Split(strings.TrimSuffix(b.Text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		typed, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			if len(commands) == 0 {
				return nil, fmt.Errorf("line %d: output before the first command", b.Line+i+1)
			}
			commands[len(commands)-1].Output += lines[i] + "\n"
			continue
		}
		at := b.Line + i + 1
		for strings.HasSuffix(typed, `\`) && i+1 < len(lines) {
			i++
			typed = strings.TrimSuffix(typed, `\`) + " " + strings.TrimPrefix(lines[i], "> ")
		}
		parsed, err := parse(typed)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", at, err)
		}
		for _, c := range parsed {
			c.Line = at
		}
		commands = append(commands, parsed...)
	}
	return commands, nil
}
