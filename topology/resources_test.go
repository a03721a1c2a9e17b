package topology

import "testing"

func TestResourceGrantText(t *testing.T) {
	t.Parallel()
	var a, b Amounts
	a.NUMA[0], a.NUMA[3], b.Far = 2, 1, 4
	g := MakeResourceGrant([]Resource{{"z.dev/key", b}, {"example.com/fpga", a}, {"none.dev/x", Amounts{}}})
	if want := ResourceGrant("example.com/fpga=0:2,3:1;z.dev/key=far:4"); g != want {
		t.Errorf("%q, want %q", g, want)
	}
	if got, err := ParseResourceGrant("z.dev/key=far:4;example.com/fpga=3:1,0:2"); err != nil || got != g {
		t.Errorf("read %q, %v; want %q", got, err, g)
	}
	if g.Of("example.com/fpga") != a || g.Of("z.dev/key") != b || g.Of("other.dev/x") != (Amounts{}) || g.NUMANodes() != 0b1001 {
		t.Errorf("%q has %v and %v on %b", g, g.Of("example.com/fpga"), g.Of("z.dev/key"), g.NUMANodes())
	}
	for _, bad := range []string{
		"", "example.com/fpga", "fpga=0:1", "example.com/fpga=", "example.com/fpga=0", "example.com/fpga=8:1", "example.com/fpga=0:0", "example.com/fpga=0:-1", "example.com/fpga=0:1,0:1",
		"example.com/fpga=near:1", "example.com/fpga=0:1;example.com/fpga=1:1", "example.com/fpga=0:1;", "/x=0:1", "a/=0:1", "example.com/fpga=0:99999999999999",
	} {
		if got, err := ParseResourceGrant(bad); err == nil {
			t.Errorf("%q is read as %q", bad, got)
		}
	}
	for r, answers := range map[ResourceRequest]bool{
		"example.com/fpga=3,z.dev/key=4": true, "example.com/fpga=3,other.dev/x=1,z.dev/key=4": true, "example.com/fpga=3": false, "example.com/fpga=2,z.dev/key=4": false, "": false,
	} {
		if g.Answers(r) != answers {
			t.Errorf("%q answers %q: %v", g, r, !answers)
		}
	}
}
