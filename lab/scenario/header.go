package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// defaultPace is how many virtual seconds pass in a real one where the file does not say.
const defaultPace = 30

// Header is what the comments at the head of a file say to the lab:
//
//	# lab: pace=60
//	# sim-only: it takes days
type Header struct {
	// Pace is how many virtual seconds pass in a real one.
	Pace float64
	// SimOnly is why only the simulator can play the file; empty: the lab can, too.
	SimOnly string
}

// ReadHeader reads the comments before the first command. It fails on a pace that is none, and on a sim-only without a reason.
func ReadHeader(text string) (Header, error) {
	h := Header{Pace: defaultPace}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		comment, isComment := strings.CutPrefix(line, "#")
		if !isComment && line != "" {
			return h, nil
		}
		key, value, _ := strings.Cut(strings.TrimSpace(comment), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "sim-only":
			if value == "" {
				return h, fmt.Errorf("sim-only: want the reason why the lab cannot play it")
			}
			h.SimOnly = value
		case "lab":
			text, ok := strings.CutPrefix(value, "pace=")
			pace, err := strconv.ParseFloat(text, 64)
			if !ok || err != nil || !(pace >= 1 && pace <= 1000) {
				return h, fmt.Errorf("lab: want pace=N, the virtual seconds in a real one, from 1 to 1000; found %q", value)
			}
			h.Pace = pace
		}
	}
	return h, nil
}

// real is how long a virtual duration takes.
func (h Header) real(virtual time.Duration) time.Duration {
	return time.Duration(float64(virtual) / h.Pace)
}
