package spec

import (
	"reflect"
	"strings"
	"testing"
)

func TestResources(t *testing.T) {
	const text = "first:setup/example.com/fpga=3,main/example.com/fpga=2,side/example.com/fpga=2,main/example.com/net=1"
	got, err := ParseResources(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []ResourceRequest{
		{"example.com/fpga", []ContainerAmount{{"setup", true, 3}, {"main", false, 2}, {"side", false, 2}}},
		{"example.com/net", []ContainerAmount{{"main", false, 1}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
	if again := FormatResources(got); again != text {
		t.Errorf("%s; want %s", again, text)
	}
	if a, b := got[0].Amount(), got[1].Amount(); a != 4 || b != 1 {
		t.Errorf("the pod needs %d and %d; want 4 and 1", a, b)
	}
	for _, bad := range []string{
		"", "main", "main/example.com/fpga", "main/fpga=1", "main/example.com/fpga=0", "main/example.com/fpga=-1", "main/example.com/fpga=x", "/example.com/fpga=1",
		"main/example.com/=1", "main//fpga=1", "main/example.com/fpga=1,main/example.com/fpga=2", "main/example.com/fpga=2000000000000", "main/a/b/c=1",
		strings.Repeat("a/b/c=1,", 64) + "a/b/c=1", "first:/example.com/fpga=1",
	} {
		if got, err := ParseResources(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

func FuzzParseResources(f *testing.F) {
	f.Add("first:setup/example.com/fpga=3,main/example.com/fpga=2")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseResources(text)
		if err != nil {
			return
		}
		again, err := ParseResources(FormatResources(got))
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("%q: %+v, and written and read again %+v, %v", text, got, again, err)
		}
	})
}
