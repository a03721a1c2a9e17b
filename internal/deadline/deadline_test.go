package deadline

import (
	"testing"
	"time"
)

func TestEarliest(t *testing.T) {
	var e Earliest
	if _, ok := e.Time(); ok {
		t.Error("the zero value has a time")
	}
	began := time.Unix(1000, 0)
	e.Add(began, false)
	if _, ok := e.Time(); ok {
		t.Error("a time that is none was taken into account")
	}
	for _, after := range []time.Duration{3, 1, 2} {
		e.Add(began.Add(after), true)
	}
	if at, ok := e.Time(); !ok || !at.Equal(began.Add(1)) {
		t.Errorf("earliest is %v, %v", at, ok)
	}
}
