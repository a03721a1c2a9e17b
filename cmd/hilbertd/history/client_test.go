package history

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/metrics"
)

var (
	until = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	web   = metrics.Workload{Namespace: "shop", Kind: "Deployment", Name: "web.v1"}
)

// standIn is a server that answers as Prometheus does.
func standIn(t *testing.T, handle http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	c := spec.Default().Metrics.Prometheus
	c.URL, c.Timeout = server.URL+"/prometheus/", spec.Duration(10*time.Second)
	c.TokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(c.TokenFile, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := New(&c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestQuestionsAndAnswers(t *testing.T) {
	var asked []string
	client := standIn(t, func(w http.ResponseWriter, r *http.Request) {
		for _, key := range []string{"query", "start", "end", "step", "timeout"} {
			asked = append(asked, r.FormValue(key))
		}
		asked = append(asked, r.URL.Path, r.Header.Get("Authorization"))
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1795694100,"1.5"],[1795694400,"NaN"],[1795694700,"2"],[1795694800.5,"-1"]]}]}}`)
	})
	loads, err := client.CPU(t.Context(), web, until.Add(-24*time.Hour), until, 5*time.Minute)
	if err != nil || len(loads) != 2 || loads[0].Cores != 1.5 || loads[1].Cores != 2 || loads[1].At.Unix() != 1795694700 {
		t.Errorf("%v %v", loads, err)
	}
	want := []string{
		`sum(rate(container_cpu_usage_seconds_total{namespace="shop", pod=~"web\\.v1-[a-z0-9]+-[a-z0-9]+", container!=""}[5m]))`,
		fmt.Sprint(until.Unix() - 24*3600), fmt.Sprint(until.Unix()), "300", "10s", "/prometheus/api/v1/query_range", "Bearer secret",
	}
	if got, want := strings.Join(asked, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("asked\n%s\nwant\n%s", got, want)
	}
}

// TestQuotes: no name leaves its quotes.
func TestQuotes(t *testing.T) {
	w := metrics.Workload{Namespace: `a"} or vector(1) #`, Kind: "StatefulSet", Name: "db"}
	if got, want := Query(`x{namespace=$namespace,pod=~$pods,kind=$kind,workload=$workload}`, w), `x{namespace="a\"} or vector(1) #",pod=~"db-[0-9]+",kind="StatefulSet",workload="db"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for body, want := range map[string]string{
		`{"status":"error","error":"parse error"}`:                                                   "parse error",
		`{"status":"success","data":{"resultType":"vector","result":[]}}`:                            "want a matrix",
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[]},{"values":[]}]}}`: "2 series",
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"a"]]}]}}`:        "a point",
		`<html>`: "no JSON of Prometheus",
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[` + strings.Repeat(`[1,"1"],`, MaxPoints+1) + `[1,"1"]]}]}}`: "points",
		strings.Repeat(" ", maxAnswer+1): "longer than",
	} {
		client := standIn(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		if loads, err := client.CPU(t.Context(), web, until.Add(-time.Hour), until, time.Minute); err == nil || !strings.Contains(err.Error(), want) || loads != nil {
			t.Errorf("%.60s: %v %v", body, loads, err)
		}
	}
	client := standIn(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "too busy", http.StatusServiceUnavailable) })
	if _, err := client.CPU(t.Context(), web, until.Add(-time.Hour), until, time.Minute); err == nil || !strings.Contains(err.Error(), "too busy") {
		t.Errorf("503: %v", err)
	}
	client = standIn(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
	})
	if loads, err := client.CPU(t.Context(), web, until.Add(-time.Hour), until, time.Minute); err != nil || loads != nil {
		t.Errorf("no series: %v %v", loads, err)
	}
}

// TestSilentServers: the timeout of the configuration ends a question.
func TestSilentServers(t *testing.T) {
	ended := make(chan struct{})
	client := standIn(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	})
	defer close(ended)
	client.config.Timeout = spec.Duration(20 * time.Millisecond)
	if _, err := client.CPU(t.Context(), web, until.Add(-time.Hour), until, time.Minute); err == nil {
		t.Error("a silent server is waited for")
	}
}

// TestTokensFollowNoRedirect: the token goes to the server that is configured alone.
func TestTokensFollowNoRedirect(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	t.Cleanup(other.Close)
	client := standIn(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	if _, err := client.CPU(t.Context(), web, until.Add(-time.Hour), until, time.Minute); err == nil || reached {
		t.Errorf("a redirect was followed: %v %v", reached, err)
	}
}
