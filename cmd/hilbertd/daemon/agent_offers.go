package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/kube"
	"hilbert.dev/hilbert/node/gpu"
)

// maxOffersBytes bounds an answer: a Node has up to some 100 KiB.
const maxOffersBytes = 8 << 20

// errNotServed is a resource that the API server does not have.
var errNotServed = errors.New("not served")

// gpuOffers asks the API server who offers the GPUs of a node, beside us.
func gpuOffers(c *kube.Connection, name string) (func(ctx context.Context) (gpu.Evidence, error), error) {
	config := rest.CopyConfig(c)
	config.Timeout = agentTimeout
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the agent: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the agent: %w", err)
	}
	get := func(ctx context.Context, path string, query url.Values, into any) error {
		target := *base
		target.Path = strings.TrimSuffix(base.Path, "/") + path
		target.RawQuery = query.Encode()
		return getJSON(ctx, client, target.String(), into)
	}
	return func(ctx context.Context) (e gpu.Evidence, err error) {
		var node struct {
			Status struct{ Capacity, Allocatable map[string]string }
		}
		if err := get(ctx, "/api/v1/nodes/"+url.PathEscape(name), nil, &node); err != nil {
			return e, fmt.Errorf("read the Node: %w", err)
		}
		e.NodeKnown, e.Offered = true, make(map[string]int64)
		for _, amounts := range []map[string]string{node.Status.Capacity, node.Status.Allocatable} {
			for resource, text := range amounts {
				e.Offered[resource] = max(e.Offered[resource], atLeastOne(text))
			}
		}
		var slices struct {
			Items []struct {
				Spec struct {
					Driver  string
					Devices []struct{}
				}
			}
		}
		query := url.Values{"fieldSelector": {"spec.nodeName=" + name + ",spec.driver=gpu.nvidia.com"}}
		for _, version := range []string{"v1", "v1beta2", "v1beta1"} { // a server has the newest that it knows, and maybe older ones
			err = get(ctx, "/apis/resource.k8s.io/"+version+"/resourceslices", query, &slices)
			if !errors.Is(err, errNotServed) {
				break
			}
		}
		if err != nil && !errors.Is(err, errNotServed) {
			return e, fmt.Errorf("list the ResourceSlices: %w", err)
		}
		e.SlicesKnown = true
		for _, s := range slices.Items {
			e.Slices += len(s.Spec.Devices)
		}
		return e, nil
	}, nil
}

// atLeastOne reads a quantity of whole things. One that cannot be read is one: it is offered.
func atLeastOne(text string) int64 {
	var n int64
	if _, err := fmt.Sscanf(text, "%d", &n); err != nil {
		return 1
	}
	return n
}

func getJSON(ctx context.Context, client *http.Client, target string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxOffersBytes))
	switch {
	case err != nil:
		return err
	case answer.StatusCode == http.StatusNotFound:
		return errNotServed
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("the API server answers %s", answer.Status)
	}
	return json.Unmarshal(body, into)
}
