package moves

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/kube/apiserver"
)

// HistoryName is the ConfigMap, in the controller's namespace, that says who was moved before, for the next leader. It comes with the manifests, empty: the controller may read and patch this one and make
// none, so that one that is not there is a mistake, and not a cluster in which nobody was moved. historyKey is where it says so.
const (
	HistoryName = "hilbert-moves"
	historyKey  = "moves.json"
)

func (c *Client) historyPath() string {
	return "/api/v1/namespaces/" + c.namespace + "/configmaps/" + HistoryName
}

// ErrDamaged is what was read of who was moved before and makes no sense: reading it again is no use.
var ErrDamaged = errors.New("it is damaged")

// History reads who was moved before.
func (c *Client) History(ctx context.Context) (*reschedule.History, error) {
	what := "the ConfigMap " + c.namespace + "/" + HistoryName
	var m corev1.ConfigMap
	there, err := c.read(ctx, c.historyPath(), what, &m)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, fmt.Errorf("read %s: there is none, so that nobody knows who was moved before; apply deploy/controller/moves.yaml", what)
	}
	h, err := reschedule.ReadHistory([]byte(m.Data[historyKey]))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", what, ErrDamaged, err)
	}
	return h, nil
}

// Remember writes down who was moved.
func (c *Client) Remember(ctx context.Context, h *reschedule.History) error {
	did := "write down who was moved, in the ConfigMap " + c.namespace + "/" + HistoryName
	text, err := h.Record()
	if err != nil {
		return fmt.Errorf("%s: %w", did, err)
	}
	body, err := json.Marshal(map[string]any{"data": map[string]string{historyKey: string(text)}})
	if err != nil {
		return fmt.Errorf("%s: %w", did, err)
	}
	a := c.write(ctx, &apiserver.Call{Method: http.MethodPatch, Path: c.historyPath(), ContentType: apiserver.ContentMerge, Accept: apiserver.AcceptMetadataJSON, Body: body}, did)
	return a.Failure(did)
}
