package write

import (
	"encoding/json"
	"fmt"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/schedule/bind"
)

// refusalsBody encodes which of its requests a node is told are refused: all of them, in place of those of before.
func refusalsBody(w *bind.Write) ([]byte, error) {
	var refused []spec.PodRef // null, for none, removes the field
	for _, p := range w.Refused {
		refused = append(refused, spec.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)})
	}
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"refusedEvictions": refused}})
	if err != nil {
		return nil, fmt.Errorf("encode the refusals of node %s: %w", w.Node, err)
	}
	return body, nil
}
