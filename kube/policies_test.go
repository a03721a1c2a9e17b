package kube

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/cluster/facts"
	admission "hilbert.dev/hilbert/deploy/policies"
	"hilbert.dev/hilbert/topology"
)

func wanted(t *testing.T) policySet {
	t.Helper()
	set, err := promisePolicies()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Each policy and binding that is taken away or weakened in any part is missing, by name.
func TestMissingPolicies(t *testing.T) {
	want := wanted(t)
	if len(want.policies) < len(promiseFiles) || len(want.bindings) != len(want.policies) {
		t.Fatalf("%d policies, %d bindings", len(want.policies), len(want.bindings))
	}
	if have := wanted(t); want.missing(&have) != "" {
		t.Errorf("all are there: %s", want.missing(&have))
	}
	own := wanted(t)
	for _, p := range own.policies {
		for i := range p.Spec.Validations {
			p.Spec.Validations[i].Expression = strings.ReplaceAll(p.Spec.Validations[i].Expression, "'"+admission.Placer+"'", "'a', 'b'")
		}
	}
	if got := want.missing(&own); got != "" {
		t.Errorf("a cluster's own accounts: %s", got)
	}
	expect := func(what, name string, spoil func(*policySet)) {
		t.Helper()
		have := wanted(t)
		spoil(&have)
		if got := want.missing(&have); !strings.Contains(got, name) {
			t.Errorf("%s of %s: %q", what, name, got)
		}
	}
	ignore := admissionv1.Ignore
	some := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	for name := range want.policies {
		for what, spoil := range map[string]func(*admissionv1.ValidatingAdmissionPolicySpec){
			"failurePolicy": func(p *admissionv1.ValidatingAdmissionPolicySpec) { p.FailurePolicy = &ignore },
			"a rule": func(p *admissionv1.ValidatingAdmissionPolicySpec) {
				p.MatchConstraints.ResourceRules = p.MatchConstraints.ResourceRules[1:]
			},
			"an operation": func(p *admissionv1.ValidatingAdmissionPolicySpec) {
				p.MatchConstraints.ResourceRules[0].Operations = nil
			},
			"a selector":      func(p *admissionv1.ValidatingAdmissionPolicySpec) { p.MatchConstraints.NamespaceSelector = some },
			"all constraints": func(p *admissionv1.ValidatingAdmissionPolicySpec) { p.MatchConstraints = nil },
			"a validation":    func(p *admissionv1.ValidatingAdmissionPolicySpec) { p.Validations = p.Validations[1:] },
			"a condition": func(p *admissionv1.ValidatingAdmissionPolicySpec) {
				p.MatchConditions = append(p.MatchConditions, admissionv1.MatchCondition{Name: "x"})
			},
			"a variable": func(p *admissionv1.ValidatingAdmissionPolicySpec) {
				p.Variables = append(p.Variables, admissionv1.Variable{Name: "x"})
			},
			"an expression": func(p *admissionv1.ValidatingAdmissionPolicySpec) { p.Validations[0].Expression = "true" },
		} {
			expect(what, name, func(s *policySet) { spoil(&s.policies[name].Spec) })
		}
		expect("existence", name, func(s *policySet) { delete(s.policies, name) })
	}
	for name := range want.bindings {
		expect("existence of the binding", name, func(s *policySet) { delete(s.bindings, name) })
		expect("the denial", name, func(s *policySet) {
			s.bindings[name].Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
		})
		expect("the policy's name", name, func(s *policySet) { s.bindings[name].Spec.PolicyName = "another" })
		expect("a selector", name, func(s *policySet) {
			s.bindings[name].Spec.MatchResources = &admissionv1.MatchResources{ObjectSelector: some}
		})
	}
}

// Without the policies a report promises nothing and lends nothing, and evictions go on; with them it is acted on again.
func TestUnguardedReports(t *testing.T) {
	var sent []facts.NodeReported
	var told []string
	f := newFreshness(receiverFunc(func(e facts.Event) error {
		if r, ok := e.(facts.NodeReported); ok {
			sent = append(sent, r)
		}
		return nil
	}), staleAges{time.Hour, time.Hour, time.Hour})
	f.inForce = func(missing string) { told = append(told, missing) }
	f.unguarded = "not known"
	report := &facts.NodeReport{
		NUMANodes: topology.NUMAShape{Ruler: topology.RulerAgent, NUMANodes: 1}, Devices: &topology.Devices{Owner: topology.OwnerHilbert, GPU: make([]topology.GPU, 2)},
		Headroom: facts.Headroom{State: facts.HeadroomOpen, MilliCPU: 1000}, Evictions: []facts.EvictionRequest{{UID: "u"}},
	}
	withheld := func(r *facts.NodeReport) bool {
		return r.NUMANodes.Ruler == topology.RulerNone && r.Why == facts.ReportUnguarded && r.Devices.ClosedGPUs == 3 && r.Headroom.State == facts.HeadroomClosed && len(r.Evictions) == 1
	}
	first, ok := f.upserted(nodeReport{"n1", report, time.Now()}).(facts.NodeReported)
	if !ok || !withheld(first.Report) {
		t.Errorf("before the policies are known: %+v", first.Report)
	}
	for _, c := range []struct {
		missing string
		events  int
	}{{"", 1}, {"", 0}, {"a policy", 1}, {"another", 1}, {"", 1}} {
		sent = nil
		if err := f.guard(c.missing); err != nil {
			t.Fatal(err)
		}
		if len(sent) != c.events {
			t.Errorf("%q: %d events, want %d", c.missing, len(sent), c.events)
		}
		for _, r := range sent {
			if withheld(r.Report) != (c.missing != "") || c.missing == "" && r.Report != report {
				t.Errorf("%q: %+v", c.missing, r.Report)
			}
			if note := r.Report.Headroom.Note; c.missing != "" && !strings.Contains(note, c.missing) {
				t.Errorf("%q: the headroom says %q", c.missing, note)
			}
		}
	}
	if strings.Join(told, ",") != ",,a policy,another," {
		t.Errorf("told %q", told)
	}
}

// receiverFunc is a receiver.
type receiverFunc func(facts.Event) error

func (f receiverFunc) send(e facts.Event) error { return f(e) }
