package configfile_test

import (
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/control/metrics"
)

// TestMetrics: what is wrong with the role metrics' fields is named, each with its cure.
func TestMetrics(t *testing.T) {
	const header = "apiVersion: config.hilbert.dev/v1alpha1\nkind: HilbertConfiguration\n"
	for text, want := range map[string]string{
		"roles: [metrics]\n":          "server.tlsCertFile",
		"metrics: {staleAfter: 1s}\n": "metrics.staleAfter", "metrics: {maxForecasts: -1}\n": "metrics.maxForecasts", "metrics: {checkpoint: here}\n": "no absolute path",
		"metrics: {agentAccount: \"\"}\n": "metrics.agentAccount", "metrics: {stale: 1m}\n": "unknown field",
		"metrics: {prometheus: {url: \"ftp://x\"}}\n": "no URL of http", "metrics: {prometheus: {url: \"http://x\", cpuQuery: \"up\"}}\n": "every workload would have the same load",
		"metrics: {prometheus: {url: \"http://x\", timeout: 2h}}\n":                                                                                   "metrics.prometheus.timeout",
		"metrics: {peaks: [{name: a, namespace: b, workload: c, schedule: \"61 * * * *\", duration: 1h, load: 1}]}\n":                                 "is no schedule",
		"metrics: {peaks: [{name: a, namespace: b, workload: c, schedule: \"@every 1h\", duration: 1h, load: 1}]}\n":                                  "begins at no time of its own",
		"metrics: {peaks: [{name: a, namespace: b, workload: c, schedule: \"0 8 * * *\", timeZone: Mars, duration: 1h, load: 1}]}\n":                  "no time zone",
		"metrics: {peaks: [{name: a, namespace: b, workload: c, schedule: \"TZ=UTC 0 8 * * *\", duration: 1h, load: 1}]}\n":                           "write that as timeZone",
		"metrics: {peaks: [{name: a, namespace: b, workload: c, begins: \"27.11.2026\", duration: 1h, load: 1}]}\n":                                   "metrics.peaks[0].begins",
		"metrics: {peaks: [{name: a, namespace: b, workload: c, schedule: \"0 8 * * *\", begins: \"2026-11-27T08:00:00\", duration: 1h, load: 1}]}\n": "write one of them",
		"metrics: {peaks: [{name: a, namespace: b, workload: c, duration: 1h, load: 1}]}\n":                                                           "metrics.peaks[0].schedule",
		"metrics: {peaks: [{name: a, namespace: b, workload: c, schedule: \"0 8 * * *\", duration: 0s, load: 0}]}\n":                                  "metrics.peaks[0].load",
		"node: {metrics: {address: here}}\n": "is not HOST:PORT", "node: {metrics: {interval: 1s}}\n": "node.metrics.interval", "node: {metrics: {address: \"a:1\", tokenFile: t}}\n": "node.metrics.tokenFile",
	} {
		if _, err := configfile.Parse([]byte(header + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	c, err := configfile.Parse([]byte(header + "metrics: {maxForecasts: 0, peaks: [{name: sale, namespace: shop, workload: web, schedule: \"0 8 * * *\", timeZone: Europe/Berlin, duration: 2h, load: 40}, {name: once, namespace: shop, workload: web, begins: \"2026-11-27T08:00:00\", duration: 2h, load: 90}]}\n"))
	if err != nil || *c.Metrics.MaxForecasts != 0 || c.Metrics.Peaks[0].Kind != "Deployment" {
		t.Fatalf("%+v %v", c, err)
	}
	peaks, err := configfile.Peaks(c.Metrics.Peaks)
	if err != nil {
		t.Fatal(err)
	}
	list := peaks[metrics.Workload{Namespace: "shop", Kind: "Deployment", Name: "web"}]
	summer := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	if len(list) != 2 || !list[1].Begins.Next(summer).Equal(time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)) || !list[0].Begins.Next(summer).Equal(summer.Add(6*time.Hour)) {
		t.Errorf("%+v", list)
	}
}
