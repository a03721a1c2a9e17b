package runqueue

import (
	"errors"
	"testing"
)

const (
	switched = `name: sched_switch
ID: 372
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;
	field:int prev_prio;	offset:28;	size:4;	signed:1;
	field:long prev_state;	offset:32;	size:8;	signed:1;
	field:char next_comm[16];	offset:40;	size:16;	signed:0;
	field:pid_t next_pid;	offset:56;	size:4;	signed:1;

print fmt: "prev_pid=%d", REC->prev_pid
`
	woken = `	field:int common_pid;	offset:4;	size:4;	signed:1;
	field:pid_t pid;	offset:24;	size:4;	signed:1;
`
)

// Fields are where the kernel says, whatever lies before them; one that is not there or has another size is an error, and never read at offset 0.
func TestFields(t *testing.T) {
	got, err := fieldsOf(switched, woken)
	if want := (fields{24, 32, 56, 24}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "field:pid_t pid;\toffset:24;\tsize:8;", "field:pid_t pid; size:4;", "field:pid_t pid;offset:99999;size:4;", "pid;offset:24;size:4;"} {
		if got, err := fieldsOf(switched, bad); !errors.Is(err, errNoField) {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
}

func TestDepth(t *testing.T) {
	for cgroup, want := range map[string]int{"": 0, "/": 0, "a": 1, "a/b": 2, "/a/b/c/": 3} {
		if got := depth(cgroup); got != want {
			t.Errorf("%q: %d", cgroup, got)
		}
	}
}
