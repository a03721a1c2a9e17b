package explain

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// TestHarm: who is harmed, by whom, what is done and what follows; and how much CPU may be promised, and why.
func TestHarm(t *testing.T) {
	var a nodeAnswer
	if err := yaml.UnmarshalStrict([]byte(`
interference:
  mode: report
  watched: 12
  learning: 2
  unknown: [memory bandwidth]
  findings:
  - {victim: {namespace: shop, name: web, uid: u1}, culprit: {namespace: ml, name: hog, uid: u2}, step: CulpritLimited, message: "run delay 0.3, of 0.05 at this load"}
  - {victim: {namespace: shop, name: db, uid: u3}, step: GrowthStopped, message: "pressure 0.4"}
  apart:
  - {victim: {namespace: shop, name: web, uid: u1}, culprit: {namespace: ml, name: hog, uid: u2}, until: "2026-11-27T10:00:00Z"}
overcommit: {percent: 128, extraMilliCPU: 5500, peakPercent: 42, hours: 60, reason: Harm, message: "0.31 threads wait for each CPU, more than 0.20"}
`), &a); err != nil {
		t.Fatal(err)
	}
	const want = `
Harmful neighbours (mode report):
  12 services are watched; of 2 of them too little was seen yet at their load
  not seen on this node: memory bandwidth
  shop/web is harmed, by ml/hog (CulpritLimited): run delay 0.3, of 0.05 at this load; in mode act: the culprit has less CPU; if that does not help and it is reclaimed, it is evicted
  shop/db is harmed, nobody can be named (GrowthStopped): pressure 0.4; in mode act: no more is lent; if that does not help, the culprit is limited
  until 2026-11-27T10:00:00Z pods like ml/hog are better placed elsewhere than beside shop/web

Over-commitment:
  128 % of its CPUs, 5.5 CPUs more than services share, may be asked for before requests are lowered
  Harm: 0.31 threads wait for each CPU, more than 0.20
  services used up to 42 % of what they asked for, in 60 hours of the week
`
	if got := a.harm(); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
	if got := (&nodeAnswer{}).harm(); got != "" {
		t.Errorf("of a node that watches nothing: %s", got)
	}
}
