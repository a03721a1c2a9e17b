package parse

import (
	"strings"
	"unicode"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
)

const (
	// maxReason and maxNote bound the bytes of an event's reason and of its message.
	maxReason = 64
	maxNote   = 1024
)

// nodeEvents reads what an agent has to tell people. What nobody could be told is left out; control characters are, too, because people read it in terminals.
func nodeEvents(list []spec.NodeEvent) (out []facts.NodeEvent) {
	for i := range list[:min(len(list), spec.MaxNodeEvents)] {
		said := &list[i]
		e := facts.NodeEvent{Reason: said.Reason, Message: printable(said.Message), Count: said.Count, First: said.First.UnixNano(), Last: said.Last.UnixNano()}
		if said.Pod != nil {
			e.UID, e.Namespace, e.Name = facts.UID(said.Pod.UID), said.Pod.Namespace, said.Pod.Name
		}
		named := said.Pod == nil || e.UID != "" && e.Namespace != "" && e.Name != ""
		if named && isReason(e.Reason) && e.Count > 0 && e.First > 0 && e.Last >= e.First {
			out = append(out, e)
		}
	}
	return out
}

// isReason reports whether a text is one CamelCase word.
func isReason(text string) bool {
	letter := func(c rune) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }
	return len(text) > 1 && len(text) <= maxReason && text[0] >= 'A' && text[0] <= 'Z' && strings.IndexFunc(text, func(c rune) bool { return !letter(c) }) < 0
}

// printable is a text without control characters, and no longer than people read.
func printable(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == unicode.ReplacementChar {
			return ' '
		}
		return c
	}, text)
	if len(text) > maxNote {
		text = strings.ToValidUTF8(text[:maxNote], "")
	}
	return text
}
