package agent

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/deploytest"
	"hilbert.dev/hilbert/node/enforce"
)

// TestHarmfulNeighbour: an unmodified kubelet admits services that ask for more CPUs than the node has, since the policy has lowered their requests. A hog comes among them. The
// probe of the run queues names it, and nobody else; the percent of CPUs that may be promised falls; the hog is limited; and the service waits less than half as long as before.
// Correlation names nobody here: nothing correlates by 1. When the hog has gone, what was done is taken back after a calm time, and the percent rises again.
func TestHarmfulNeighbour(t *testing.T) {
	long(t)
	r := newRig(t)
	r.overcommits(150)
	r.watchesNeighbours()
	pods := r.run(
		r.pod("asks-much", requests("5")),
		r.pod("web-beside", requests("3"), annotated(spec.AnnotationPool, "web")), // the pool has three CPUs
		r.pod("web", requests("1"), annotated(spec.AnnotationPool, "web"), does("burn", "3")),
	)
	web := pods[2]
	if asked := r.asked(pods); asked <= 1000*vm.CPUs {
		t.Fatalf("the services ask for %d millicores, no more than the node has", asked)
	}
	before := r.learned(2)
	calm := r.waits(web)
	hog := r.run(r.pod("hog", requests("300m"), annotated(spec.AnnotationPool, "web"), does("burn", "3")))[0]
	begin := time.Now()
	harmed := 0.0
	var finding spec.InterferenceFinding
	r.eventually(patience, "the hog is named", func() error {
		o, err := r.report()
		if err != nil || o.Status.Interference == nil {
			return errors.Join(err, errors.New("nothing is reported"))
		}
		harmed = max(harmed, r.waits(web))
		for _, f := range o.Status.Interference.Findings {
			switch {
			case f.Culprit == nil:
			case f.Culprit.UID != string(hog.UID):
				t.Fatalf("another one is named: %+v", f)
			case f.Victim.UID == string(web.UID):
				finding = f
				return nil
			}
		}
		return fmt.Errorf("findings %+v, unknown %q", o.Status.Interference.Findings, o.Status.Interference.Unknown)
	})
	t.Logf("named %.0f s after it ran: %s: %s", time.Since(begin).Seconds(), finding.Step, finding.Message)
	if !strings.Contains(finding.Message, "waited behind default/hog") {
		t.Errorf("it was not the probe that named it: %s", finding.Message)
	}
	dir, err := r.PodCgroup(t.Context(), hog)
	if err != nil {
		t.Fatal(err)
	}
	r.eventually(patience, "the hog is limited", func() error {
		text, err := r.Guest.Field(t.Context(), dir+"/"+enforce.CPUMax)
		if err == nil && (strings.HasPrefix(text, "max") || !strings.HasSuffix(text, " "+strconv.Itoa(enforce.LimitPeriod))) {
			err = fmt.Errorf("cpu.max is %q", text)
		}
		return err
	})
	after := 0.0
	r.eventually(patience, "the service waits less than half as long", func() error {
		if after = r.waits(web); after > harmed/2 {
			return fmt.Errorf("it waits in %.2f of the time, before the hog in %.2f, beside it in %.2f", after, calm, harmed)
		}
		return nil
	})
	t.Logf("the service waited in %.2f of the time, beside the hog in %.2f, beside the limited one in %.2f", calm, harmed, after)
	r.eventually(patience, "less is promised", func() error {
		o, err := r.report()
		if err != nil {
			return err
		}
		if c := o.Status.Overcommit; c == nil || c.Reason != "Harm" || c.Percent >= before {
			return fmt.Errorf("%+v, before the hog %d percent", c, before)
		}
		return nil
	})
	r.recovers(hog)
}

// recovers has the hog go, and returns when nothing is found any more and more may be promised than at its end.
func (r *rig) recovers(hog *corev1.Pod) {
	r.t.Helper()
	r.remove(hog)
	lowest := 0
	r.reported("the lowest percent", func(o *v1alpha1.CustomNodeResource) error {
		if o.Status.Overcommit == nil {
			return errors.New("nothing is promised")
		}
		lowest = o.Status.Overcommit.Percent
		return nil
	})
	took := r.eventually(2*patience, "more is promised again", func() error {
		o, err := r.report()
		if err != nil {
			return err
		}
		i, c := o.Status.Interference, o.Status.Overcommit
		if i == nil || c == nil {
			return errors.New("nothing is reported")
		}
		lowest = min(lowest, c.Percent)
		if len(i.Findings) > 0 || c.Reason == "Harm" || c.Percent <= lowest {
			return fmt.Errorf("%d findings, %+v, the lowest was %d percent", len(i.Findings), c, lowest)
		}
		r.t.Logf("%d percent may be promised, at the lowest it was %d: %s", c.Percent, lowest, c.Message)
		return nil
	})
	r.t.Logf("that took %.0f s from when the hog had gone", took.Seconds())
}

// overcommits lets pods of the default namespace ask for that percent of the CPUs, until the test ends.
func (r *rig) overcommits(percent int) {
	r.t.Helper()
	label := func(ctx context.Context, value string) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, spec.LabelOvercommitCPU, value)
		_, err := r.Client.CoreV1().Namespaces().Patch(ctx, metav1.NamespaceDefault, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	amount := strconv.Itoa(percent)
	says := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: spec.OvercommitConfigMap}, Data: map[string]string{spec.OvercommitCPUKey: amount}}
	maps := r.Client.CoreV1().ConfigMaps(deploytest.Namespace)
	_, err := maps.Create(r.t.Context(), says, metav1.CreateOptions{})
	if err = errors.Join(err, label(r.t.Context(), strconv.Quote(amount))); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(label(ctx, "null"), maps.Delete(ctx, says.Name, metav1.DeleteOptions{})); err != nil {
			r.t.Error(err)
		}
	})
	r.eventually(patience, "requests are lowered", func() error { // the policy may not know yet
		p, err := r.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(r.t.Context(), r.pod("lowered", requests("1")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && p.Annotations[spec.AnnotationRequestedCPU] == "" {
			err = fmt.Errorf("it asks for %v", p.Spec.Containers[0].Resources.Requests)
		}
		return err
	})
}

// lawState is what an agent has kept that saw services use 30 percent of what they asked for in one hour of the week, and promises half as much again.
const lawState = `{"overcommit":{"peaks":[0.3],"percent":150,"told":150,"at":"%s"}}`

// watchesNeighbours has the agent tell harm by neighbours and act on it, and say how much CPU may be promised, until the test ends. It goes on with what one before it had learned:
// the ladder of what may be promised takes a day from its beginning.
func (r *rig) watchesNeighbours() {
	r.t.Helper()
	ctx := r.t.Context()
	script := `[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing; date -u +%Y-%m-%dT%H:%M:%SZ`
	now, err := r.Guest.Shell(ctx, script)
	if err == nil {
		err = r.Guest.Service(agentName).Stop(ctx)
	}
	if err == nil {
		err = r.Guest.WriteString(ctx, agentLawState, fmt.Sprintf(lawState, strings.TrimSpace(now)))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.reconfigure("lending: {enabled: false}", `writeInterval: 1s, kubeletThresholds: File, lending: {refreshInterval: 10s},
  interference: {mode: act, culprits: shared, runQueueProbe: true, correlation: 1, deviations: 3, releaseAfter: 60s},
  overcommit: {mode: report, learnHours: 1, fallPerMinute: 50, risePerHour: 600, calmMinutes: 1, maxDelay: 100, maxPressure: 1}`)
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(r.Guest.Service(agentName).Stop(ctx), r.Guest.Remove(ctx, agentLawState)); err != nil {
			r.t.Error(err)
		}
	})
}

// asked is what pods asked for before their requests were lowered, in millicores.
func (r *rig) asked(pods []*corev1.Pod) (sum int64) {
	r.t.Helper()
	for _, p := range pods {
		n := spec.ParseRequestedCPU(p.Annotations[spec.AnnotationRequestedCPU]).Containers[container]
		if stored := p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(); n <= stored {
			r.t.Fatalf("pod %s asked for %d millicores and is stored with %d", p.Name, n, stored)
		}
		sum += n
	}
	return sum
}

// learned returns when the agent knows what is usual for at least so many services, with the percent of CPUs that may be promised then.
func (r *rig) learned(services int) (percent int) {
	r.t.Helper()
	took := r.eventually(4*patience, "what is usual is known", func() error {
		o, err := r.report()
		if err != nil {
			return err
		}
		i, c := o.Status.Interference, o.Status.Overcommit
		if i == nil || c == nil || i.Watched < services || i.Learning > 0 || len(i.Findings) > 0 || c.Percent <= 100 {
			return fmt.Errorf("interference %+v, over-commitment %+v", i, c)
		}
		percent = c.Percent
		return nil
	})
	r.t.Logf("known after %.0f s; %d percent may be promised", took.Seconds(), percent)
	return percent
}

var waited = regexp.MustCompile(`(?m)^some .*total=(\d+)$`)

// waits is the share of some seconds in which a thread of a pod waited for a CPU, by the guest's kernel and its clock.
func (r *rig) waits(p *corev1.Pod) float64 {
	r.t.Helper()
	dir, err := r.PodCgroup(r.t.Context(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	const seconds = 10
	text, err := r.Guest.Shell(r.t.Context(), fmt.Sprintf(`cut -d' ' -f1 /proc/uptime; cat %[1]s/cpu.pressure; sleep %[2]d; cut -d' ' -f1 /proc/uptime; cat %[1]s/cpu.pressure`, dir, seconds))
	if err != nil {
		r.t.Fatal(err)
	}
	var at, micros [2]float64
	uptimes, totals := regexp.MustCompile(`(?m)^[\d.]+$`).FindAllString(text, -1), waited.FindAllStringSubmatch(text, -1)
	if len(uptimes) != len(at) || len(totals) != len(at) {
		r.t.Fatalf("the guest said %q", text)
	}
	for i := range at {
		at[i], err = strconv.ParseFloat(uptimes[i], 64)
		if err != nil {
			r.t.Fatal(err)
		}
		if micros[i], err = strconv.ParseFloat(totals[i][1], 64); err != nil {
			r.t.Fatal(err)
		}
	}
	return (micros[1] - micros[0]) / 1e6 / (at[1] - at[0])
}
