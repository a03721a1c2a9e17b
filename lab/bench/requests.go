package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// requests counts what the API server was asked, by verb and resource: "POST pods/binding".
type requests map[string]float64

// uncounted are resources whose requests do not grow with the pods: Leases, and the questions which APIs there are.
var uncounted = []string{"leases", ""}

var (
	requestLine  = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)
	requestLabel = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// parseRequests reads the API server's metrics. Lists and watches are left out: they last, or happen once.
func parseRequests(text []byte) (requests, error) {
	r := make(requests)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		found := requestLine.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		labels := make(map[string]string)
		for _, label := range requestLabel.FindAllStringSubmatch(found[1], -1) {
			labels[label[1]] = label[2]
		}
		n, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics of the API server: %w", err)
		}
		verb := labels["verb"]
		if verb == "LIST" || verb == "WATCH" || slices.Contains(uncounted, labels["resource"]) {
			continue
		}
		of := labels["resource"]
		if labels["subresource"] != "" {
			of += "/" + labels["subresource"]
		}
		r[verb+" "+of] += n
	}
	return r, nil
}

// asked reads what the API server was asked so far.
func (h *harness) asked(ctx context.Context) (requests, error) {
	text, err := h.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("metrics of the API server: %w", err)
	}
	return parseRequests(text)
}

// since is what was asked after an earlier count, for each of so many pods.
func (r requests) since(before requests, pods int) requests {
	out := make(requests)
	for of, n := range r {
		if n -= before[of]; n > 0 {
			out[of] = n / float64(pods)
		}
	}
	return out
}

// writes is how many of them change something.
func (r requests) writes() (n float64) {
	for of, count := range r {
		if !strings.HasPrefix(of, "GET ") {
			n += count
		}
	}
	return n
}

// String lists them, the commonest first.
func (r requests) String() string {
	names := slices.SortedFunc(maps.Keys(r), func(a, b string) int {
		if r[a] != r[b] {
			return int(1e9*r[b]) - int(1e9*r[a])
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, 0, len(names))
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s %.3f", name, r[name]))
	}
	return strings.Join(parts, ", ")
}
