package lease

import "testing"

func TestSecHolder(t *testing.T) {
	t.Skip("issue 17: Hostile tenants, captured nodes: least privilege that is shown")
	for _, id := range []string{"hilbert-system/hilbertd-x:10461_u", "victim/evilpod:443_u", "hilbert-system/..:1_u", "a/b/c/../../../../apis:8_u", "hilbert-system/x?y=z#:1_u"} {
		h, err := ParseHolder(id)
		t.Logf("%q -> %+v %v", id, h, err)
	}
}
