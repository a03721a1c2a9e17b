package command

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestPlanTarget: a target is proposed from a file; what the file lacks is named.
func TestPlanTarget(t *testing.T) {
	var text strings.Builder
	text.WriteString("timestamp,latency,RunDelay,disk,CPI\n")
	for i := range 600 {
		delay := float64(i*7%100) / 1000
		latency := 0.1 + delay
		if delay >= 0.05 {
			latency += 1
		}
		fmt.Fprintf(&text, "%d,%g,%g,%g,\n", i, latency, delay, 2*delay)
	}
	file := filepath.Join(t.TempDir(), "web.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t.Context(), t, "plan", "target", "--series", file, "--indicator", "latency", "--limit", "0.5")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"- type: RunDelay\n  target: 0.049\n", "no agent steers by it", "0 rows are known"} {
		if !strings.Contains(out, want) {
			t.Errorf("it says\n%s\nwithout %q", out, want)
		}
	}
	if out, err = run(t.Context(), t, "plan", "target", "--series", file, "--indicator", "latency", "--limit", "50"); err != nil || !strings.Contains(out, "No target is proposed") {
		t.Errorf("%s, err %v", out, err)
	}
	for want, args := range map[string][]string{
		"--limit":      {"--series", file},
		"--series":     {"--limit", "1"},
		"no column":    {"--series", file, "--limit", "1"},
		"no such file": {"--series", file + "x", "--limit", "1"},
		"--output":     {"--series", file, "--limit", "1", "-o", "xml"},
	} {
		if _, err := run(t.Context(), t, append([]string{"plan", "target"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
	bad := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(bad, []byte("indicator,CPI\n1,2\n1,two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), t, "plan", "target", "--series", bad, "--limit", "1"); err == nil || !strings.Contains(err.Error(), "line 3, column CPI") {
		t.Errorf("a word among numbers: %v", err)
	}
}

// TestPlanTargetOfPrometheus: the past is asked of a server with Prometheus's API, and values of the same times are rows; where one is missing there is no row.
func TestPlanTargetOfPrometheus(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.FormValue("start"))
		until, _ := strconv.Atoi(r.FormValue("end"))
		step, _ := strconv.Atoi(r.FormValue("step"))
		var values []string
		for i := 0; from+i*step <= until; i++ {
			value := float64(i*7%100) / 1000
			switch r.FormValue("query") {
			case "latency":
				if value >= 0.05 {
					value += 1
				}
				value += 0.1
			case "cpi":
				if i >= 20 {
					continue
				}
			}
			values = append(values, fmt.Sprintf(`[%d,"%g"]`, from+i*step, value))
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[%s]}]}}`, strings.Join(values, ","))
	}))
	t.Cleanup(server.Close)
	ask := func(more ...string) (string, error) {
		return run(t.Context(), t, append([]string{"plan", "target", "--prometheus", server.URL, "--indicator", "latency", "--limit", "0.5"}, more...)...)
	}
	out, err := ask("--measure", "RunDelay=delay", "--measure", "CPI=cpi", "--since", "10h", "--step", "1m")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"- type: RunDelay\n  target: 0.049\n", "601 ", "20 rows are known"} {
		if !strings.Contains(out, want) {
			t.Errorf("it says\n%s\nwithout %q", out, want)
		}
	}
	for want, args := range map[string][]string{
		"--measure":       nil,
		"NAME=QUERY":      {"--measure", "delay"},
		"longer --step":   {"--measure", "RunDelay=delay", "--since", "1000h", "--step", "1m"},
		"--series":        {"--measure", "RunDelay=delay", "--series", "web.csv"},
		"a second":        {"--measure", "RunDelay=delay", "--step", "0s"},
		"no such file":    {"--measure", "RunDelay=delay", "--prometheus-token-file", "/nowhere"},
		"connection refu": {"--measure", "RunDelay=delay", "--prometheus", "http://127.0.0.1:1"},
	} {
		if _, err := ask(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
}
