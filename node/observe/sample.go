package observe

import (
	"encoding/json"
	"strconv"
	"time"
)

// State says what a Sample is good for.
type State uint8

// The states of a sample. The zero value is Missing, so that a Sample that was not filled in counts as not seen.
const (
	// Missing: there is no value, and the Reason says why.
	Missing State = iota
	// Valid: read, by plan, as long ago as Age says.
	Valid
	// Stale: it was read once, and the Reason says why not since. Age says for how long.
	Stale
	// Reversed: the counter went backwards, so that its difference means nothing.
	Reversed
)

var stateNames = [...]string{Missing: "missing", Valid: "valid", Stale: "stale", Reversed: "reversed"}

func (s State) String() string { return stateNames[s] }

// Reason says why there is no fresh value. Reasons are bounded in number: they name metrics.
type Reason uint8

// Why a value is missing or stale. NotRead is the zero value.
const (
	NotRead     Reason = iota
	First              // a rate needs two readings, and there has been one
	Interval           // the two readings are too close together, or too far apart, or the clock went back between them
	Absent             // the kernel has no such file, or no such line in it
	Gone               // the cgroup is no more
	Denied             // no permission
	Truncated          // the file ends in the middle of a line
	Malformed          // the file says something else than the kernel does
	TooLarge           // the file does not fit the buffer
	Unsupported        // the kernel has it switched off, or prints a version that is not known
	Budget             // others were read instead; its turn comes
	Limit              // there is more of it than is read
	Failed             // any other error of the kernel
	BadPath            // the name of the cgroup is not a path below the root
	reasons
)

var reasonNames = [reasons]string{
	"notRead", "first", "interval", "absent", "gone", "denied", "truncated", "malformed", "tooLarge", "unsupported", "budget", "limit",
	"failed", "badPath",
}

func (r Reason) String() string { return reasonNames[r] }

// Sample is a value with its validity.
type Sample[T any] struct {
	value  T
	age    time.Duration
	state  State
	reason Reason
}

// MissingSample has no value.
func MissingSample[T any](why Reason) Sample[T] { return Sample[T]{reason: why} }

// ReversedSample has no value, because its counter went backwards.
func ReversedSample[T any]() Sample[T] { return Sample[T]{state: Reversed} }

// Get returns the value if it is Valid.
func (s Sample[T]) Get() (T, bool) {
	if s.state != Valid {
		var none T
		return none, false
	}
	return s.value, true
}

// Within returns the value if it is Valid or Stale, and not older than age.
func (s Sample[T]) Within(age time.Duration) (T, bool) {
	if s.state != Valid && s.state != Stale || s.age > age {
		var none T
		return none, false
	}
	return s.value, true
}

// State says what the sample is good for.
func (s Sample[T]) State() State { return s.state }

// Reason says why the sample is Missing or Stale; it means nothing otherwise.
func (s Sample[T]) Reason() Reason { return s.reason }

// Age is how long before the observation the value was read: 0 unless it is Valid or Stale.
func (s Sample[T]) Age() time.Duration { return s.age }

// MarshalJSON writes {"value":1.5}, {"value":1.5,"age":2}, {"stale":1.5,"age":7,"reason":"denied"}, {"missing":"gone"} or {"reversed":true}:
// a reader that looks for "value" gets nothing else. Ages are seconds.
func (s Sample[T]) MarshalJSON() ([]byte, error) {
	switch s.state {
	case Missing:
		return []byte(`{"missing":"` + s.reason.String() + `"}`), nil
	case Reversed:
		return []byte(`{"reversed":true}`), nil
	case Valid, Stale:
	}
	value, err := json.Marshal(s.value)
	if err != nil {
		return nil, err
	}
	key := `{"value":`
	if s.state == Stale {
		key = `{"stale":`
	}
	out := append([]byte(key), value...)
	if s.age != 0 {
		out = append(out, `,"age":`...)
		out = strconv.AppendFloat(out, s.age.Seconds(), 'f', -1, 64)
	}
	if s.state == Stale {
		out = append(out, `,"reason":"`+s.reason.String()+`"`...)
	}
	return append(out, '}'), nil
}
