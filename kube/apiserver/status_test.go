package apiserver

import "testing"

// A status is replaced whole, of the object with the UID and of no other. What a real API server makes of it is held by lab/standin's script.
func TestStatusPatch(t *testing.T) {
	const want = `[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"add","path":"/status","value":{"running":0}}]`
	if got, err := StatusPatch("u", map[string]int{"running": 0}); err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}
