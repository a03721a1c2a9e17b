package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/enforce"
)

const (
	// requestsPort is where the service says how long a request takes, requestMetric what it calls that.
	requestsPort, requestMetric = 8080, "busy_request_seconds"
	// calmBefore is how long what is usual is seen to last before the hog comes: nobody is named where less than a quarter of the last windows is known to have been calm.
	calmBefore = 220 * time.Second
	// sharedDir is a directory of the guest that pods share.
	sharedDir = "/run/shared"
)

// evictsCulprits has the agent tell harm and act on it. The service's own indicator alone can say so here: what is waited for CPUs is not so many deviations.
const evictsCulprits = `writeInterval: 1s, kubeletThresholds: File, lending: {refreshInterval: 10s}, ` + offersSoon + `,
  interference: {mode: act, deviations: 8, limitShare: 1, releaseAfter: 60s}`

// TestHarmfulNeighbourIsEvicted: a reclaimed pod holds a lock of the kernel, which a service needs for each request, as long as its own work takes. The service waits for no CPU; its own
// indicator shows the harm. The culprit is named and limited to what it used, which does not help, and so it is evicted through the scheduler, with the reason in its event. (A tighter limit has
// it use less while the harm stays, and who uses less may be named no more.) Another reclaimed pod, which uses CPU all the time, stays. Then the service is as fast as before, and the two are to be kept apart.
func TestHarmfulNeighbourIsEvicted(t *testing.T) {
	long(t)
	r := newRig(t)
	r.sharedDirectory()
	r.reconfigure("lending: {enabled: false}", evictsCulprits)
	r.profiled("web")
	pods := r.run(
		r.pod("web", requests("2"), annotated(spec.AnnotationPool, "web"), labelled("app", "web"), shares, does("locks", strconv.Itoa(requestsPort))),
		r.pod("bystander", level(spec.QoSReclaimed), reclaiming("200", "64Mi"), does("steps", "100", "900"), once),
	)
	web, bystander := pods[0], pods[1]
	r.knowsUsual(1)
	time.Sleep(calmBefore)
	hog := r.run(r.pod("hog", level(spec.QoSReclaimed), reclaiming("500", "64Mi"), shares, does("occupy", "5000", "100"), once))[0]
	dir, err := r.PodCgroup(t.Context(), hog)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	limited := ""
	r.eventually(2*patience, "the hog is evicted", func() error {
		if r.leaves(bystander) {
			t.Fatal("the bystander goes")
		}
		if r.leaves(hog) {
			return nil
		}
		if text, err := r.Guest.Field(t.Context(), dir+"/"+enforce.CPUMax); err == nil && limited == "" && strings.HasSuffix(text, " "+strconv.Itoa(enforce.LimitPeriod)) && !strings.HasPrefix(text, "max") {
			limited = text
			t.Logf("the hog is limited to %q %.0f s after it ran", text, time.Since(begin).Seconds())
		}
		o, err := r.report()
		if err != nil || o.Status.Interference == nil {
			return errors.Join(err, errors.New("nothing is reported"))
		}
		for _, f := range o.Status.Interference.Findings {
			if f.Culprit != nil && f.Culprit.UID != string(hog.UID) || f.Victim.UID != string(web.UID) {
				t.Fatalf("others are named: %+v", f)
			}
		}
		return fmt.Errorf("interference %+v", o.Status.Interference)
	})
	t.Logf("the hog was evicted %.0f s after it ran", time.Since(begin).Seconds())
	if limited == "" {
		t.Error("it was not limited before")
	}
	r.told(hog, spec.ReasonEvictedForPressure, spec.ReasonInterference, "default/web: indicator is", "the use of default/hog goes with it")
	r.eventually(patience, "the service is left alone", func() error {
		o, err := r.report()
		if err != nil || o.Status.Interference == nil {
			return errors.Join(err, errors.New("nothing is reported"))
		}
		i := o.Status.Interference
		if len(i.Findings) > 0 {
			return fmt.Errorf("findings %+v", i.Findings)
		}
		if len(i.Apart) != 1 || i.Apart[0].Victim.UID != string(web.UID) || i.Apart[0].Culprit.UID != string(hog.UID) {
			t.Errorf("to be kept apart are %+v", i.Apart)
		}
		return nil
	})
	if r.leaves(bystander) || r.leaves(web) {
		t.Error("another pod has gone too")
	}
}

// knowsUsual returns when the agent knows what is usual for so many services, and finds nothing.
func (r *rig) knowsUsual(services int) {
	r.t.Helper()
	took := r.eventually(4*patience, "what is usual is known", func() error {
		o, err := r.report()
		if err != nil {
			return err
		}
		if i := o.Status.Interference; i == nil || i.Watched < services || i.Learning > 0 || len(i.Findings) > 0 {
			return fmt.Errorf("interference %+v", i)
		}
		return nil
	})
	r.t.Logf("what is usual is known after %.0f s", took.Seconds())
}

func labelled(key, value string) trait {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

// sharedDirectory makes the directory that pods share, until the test ends.
func (r *rig) sharedDirectory() {
	r.t.Helper()
	if _, err := r.Guest.Shell(r.t.Context(), fmt.Sprintf("mkdir -p %[1]s && mount -t tmpfs shared %[1]s && chmod 777 %[1]s", sharedDir)); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := r.Guest.Shell(ctx, "umount -l "+sharedDir); err != nil {
			r.t.Error(err)
		}
	})
}

// shares mounts the directory that pods share.
func shares(p *corev1.Pod) {
	kind := corev1.HostPathDirectory
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "shared", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: sharedDir, Type: &kind}}})
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "shared", MountPath: "/shared"})
}

// profiled has a ServiceProfile read the indicator of the pods of an app, and steer nothing by it, until the test ends.
func (r *rig) profiled(app string) {
	r.t.Helper()
	profile := &v1alpha1.ServiceProfile{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ServiceProfile"},
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: metav1.NamespaceDefault},
		Spec: spec.ServiceProfile{
			Selector:   spec.PodSelector{MatchLabels: map[string]string{"app": app}},
			Indicators: []spec.ProfileIndicator{{Type: spec.IndicatorMetric, Target: 1000, Metric: &spec.ProfileMetric{Port: requestsPort, Name: requestMetric}}},
			Bounds:     spec.ProfileBounds{MinCPUs: 1, MaxCPUs: 2},
		},
	}
	body, err := json.Marshal(profile)
	if err != nil {
		r.t.Fatal(err)
	}
	const path = "/apis/node.hilbert.dev/v1alpha1/namespaces/default/serviceprofiles"
	client := r.Client.Discovery().RESTClient()
	if err := client.Post().AbsPath(path).Body(body).SetHeader("Content-Type", "application/json").Do(r.t.Context()).Error(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := client.Delete().AbsPath(path, app).Do(ctx).Error(); err != nil {
			r.t.Error(err)
		}
	})
}
