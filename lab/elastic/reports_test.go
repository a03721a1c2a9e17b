package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"hilbert.dev/hilbert/api/node/v1alpha1"
)

// reportsPath is where the nodes' reports are.
const reportsPath = "/apis/node.hilbert.dev/v1alpha1/customnoderesources"

// reports are the nodes' reports as the API server has them, by node. Those that an agent has yet to write are missing.
func (b *bed) reports(ctx context.Context) (map[string]*v1alpha1.CustomNodeResource, error) {
	data, err := b.client.Discovery().RESTClient().Get().AbsPath(reportsPath).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the nodes' reports: %w", err)
	}
	var list v1alpha1.CustomNodeResourceList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read the nodes' reports: %w", err)
	}
	out := make(map[string]*v1alpha1.CustomNodeResource, len(list.Items))
	for i := range list.Items {
		if n := &list.Items[i]; !n.Status.ObservedAt.IsZero() {
			out[n.Name] = n
		}
	}
	return out, nil
}

// offer is how many nodes have said that they offer what their part of the queue asks for. An agent's first report waits for up to twice the
// write interval, so that what agents know is no sign of what was said.
func (b *bed) offer(ctx context.Context) (n int, err error) {
	const milli = 1000
	reports, err := b.reports(ctx)
	for _, name := range b.names {
		if r := reports[name]; r != nil && r.Status.Colocation != nil && r.Status.Colocation.Headroom.MilliCPU >= int64(b.Queue*b.Cores)*milli {
			n++
		}
	}
	return n, err
}

// noteReported writes down when the killed agents reported last, and returns the latest.
func (b *bed) noteReported(ctx context.Context) (latest float64, err error) {
	reports, err := b.reports(ctx)
	if err != nil {
		return 0, err
	}
	for i, name := range b.names {
		if r := reports[name]; r != nil && b.role(i) == roleKill {
			at := r.Status.ObservedAt.Sub(b.began).Seconds()
			b.result.Nodes[i].Reported, latest = at, max(latest, at)
		}
	}
	return latest, nil
}

// untilStale waits until hilbertd knows that the killed agents' reports are stale.
func (b *bed) untilStale(ctx context.Context) error {
	const late = 2 * time.Second
	for end := time.Now().Add(b.StaleAfter + patience); time.Now().Before(end); {
		latest, err := b.noteReported(ctx)
		if err != nil {
			return err
		}
		left := latest + b.knownStale() + late.Seconds() - b.now()
		if left <= 0 {
			return nil
		}
		if err := b.until(ctx, time.Duration(left*float64(time.Second)), never); err != nil {
			return err
		}
	}
	return fmt.Errorf("not after %s: killed agents are silent", b.StaleAfter+patience)
}
