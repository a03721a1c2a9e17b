package reach

import (
	"context"
	"encoding/json"
	"fmt"
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

// get reads a short answer.
func (i *Inspector) get(ctx context.Context, path string) ([]byte, http.Header, error) {
	return i.read(ctx, path, anyJSON, maxVersionAnswer)
}
