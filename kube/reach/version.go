package reach

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"hilbert.dev/hilbert/kube/visibility"
)

// maxVersionAnswer bounds what is read of an answer about a version, in bytes.
const maxVersionAnswer = 64 << 10

// Versions are what answers for a Target; "" is what does not say.
type Versions struct {
	// Hilbertd is the build of the replica that answered; another replica may run another one during an update.
	Hilbertd string `json:"hilbertd,omitempty"`
	// Kubernetes is the API server's.
	Kubernetes string `json:"kubernetes,omitempty"`
}

// Versions asks which builds of hilbertd and Kubernetes answer. It needs no permission beyond discovery's. What was learnt is returned beside an error.
func (i *Inspector) Versions(ctx context.Context) (Versions, error) {
	var v Versions
	if !i.direct {
		body, _, err := i.get(ctx, "/version")
		if err != nil {
			return v, err
		}
		var kubernetes struct {
			GitVersion string `json:"gitVersion"`
		}
		if err := json.Unmarshal(body, &kubernetes); err != nil {
			return v, fmt.Errorf("%s: /version is not JSON: %w", i.where, err)
		}
		v.Kubernetes = kubernetes.GitVersion
	}
	_, header, err := i.get(ctx, "/apis/"+visibility.GroupVersion.String())
	if err != nil {
		return v, err
	}
	version, ok := strings.CutPrefix(header.Get("Server"), visibility.Software+"/")
	if !ok {
		return v, fmt.Errorf("%s does not say which hilbertd answers: it is older than v0.1.0, or none", i.where)
	}
	v.Hilbertd = version
	return v, nil
}

// maxObject bounds what Get reads, in bytes.
const maxObject = 32 << 20

// Get reads an object, or a list of them, from the API server. path may have a query.
func (i *Inspector) Get(ctx context.Context, path string, v any) error {
	body, _, err := i.read(ctx, path, maxObject)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s: %s cannot be read: %w", i.where, path, err)
	}
	return nil
}

// Send creates (POST) or deletes (DELETE) an object at the API server. Nothing else of this package writes.
func (i *Inspector) Send(ctx context.Context, method, path string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, method, i.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	response, err := i.client.Do(request)
	if err != nil {
		return fmt.Errorf("ask %s: %w%s", i.where, err, hint(err))
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		_, err := i.complaint(response)
		return err
	}
	return response.Body.Close()
}

// get reads a short answer.
func (i *Inspector) get(ctx context.Context, path string) ([]byte, http.Header, error) {
	return i.read(ctx, path, maxVersionAnswer)
}

func (i *Inspector) read(ctx context.Context, path string, most int64) ([]byte, http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, i.base+path, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := i.client.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("ask %s: %w%s", i.where, err, hint(err))
	}
	if response.StatusCode != http.StatusOK {
		_, err := i.complaint(response)
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err == nil && int64(len(body)) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the answer of %s: %w", i.where, err)
	}
	return body, response.Header, nil
}
