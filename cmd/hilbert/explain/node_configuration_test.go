package explain

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestExplainNodeConfiguration: how far a rollout has come, what it waits for, and why it was taken back.
func TestExplainNodeConfiguration(t *testing.T) {
	var a configurationAnswer
	if err := yaml.Unmarshal([]byte(`
name: web
paused: true
status:
  nodes: {targeted: 40, told: 2, applied: 2}
  stable: {parameters: {lending: {targetUtilization: 50}}}
  rollout:
    revision: r2
    percent: 5
    before: {nodes: 40, unready: 1, known: 39, runDelay: 31, evictions: 2}
    message: "step 1 of 2, 5 % of 40 nodes: it is compared"
  conditions: [{type: Valid, status: "True", reason: Valid, message: "it can be used"}]
`), &a); err != nil {
		t.Fatal(err)
	}
	const want = `NodeConfiguration web: 40 nodes targeted, 2 told, 2 have applied it

Conditions:
  Valid is True (Valid): it can be used

Rollout of revision r2:
  step 1 of 2, 5 % of 40 nodes: it is compared
  before it, 1 of 40 agents were not ready; on the 39 nodes of which it is known, 0.031 threads waited for each shared CPU and 2 evictions were wanted

On the other nodes:
  revision REVISION: {"lending":{"targetUtilization":50}}

Also:
  spec.paused: no further node gets what has changed
`
	expectText(t, &a, strings.ReplaceAll(want, "REVISION", a.Status.Stable.Name()))
}
