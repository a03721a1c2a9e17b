package agent

import (
	"errors"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/examples"
	"hilbert.dev/hilbert/lab/vm/join"
)

// TestPluginRunsInAPod: the example of a plugin brings its cards from a pod, as its DaemonSet has it. Its container killed, the kubelet starts it again, and the agent tells it who has what;
// while the pod is gone, who asks for a card waits, and has one when another pod of the plugin is there.
func TestPluginRunsInAPod(t *testing.T) {
	long(t)
	r := newRig(t)
	r.reconfigure("lending: {enabled: false}", "plugins: {enabled: true, interval: 1s}, writeInterval: 1s, lending: {enabled: false}")
	if err := r.InstallPlugin(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Guest.Shell(t.Context(), "rm -rf /run/hilbert/plugins"); err != nil { // it makes the directory itself
		t.Fatal(err)
	}
	plugin := r.run(r.pluginPod())[0]
	r.reported("the plugin serves", func(o *v1alpha1.CustomNodeResource) error { return offered(o, 3, 0, true) })
	pods := r.run(r.pod("web", requests("500m"), card), r.pod("plain", requests("100m")))
	webs, _ := r.cardOf(pods[0])
	unchanged := r.stay(pods)

	if _, err := r.Guest.Signal(t.Context(), join.PluginProgram, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	later := r.run(r.pod("later", requests("100m"), card))[0]
	if has, _ := r.cardOf(later); has == webs {
		t.Errorf("after the crash pod later has %s, which pod web holds", has)
	}
	now, err := r.Client.CoreV1().Pods(plugin.Namespace).Get(t.Context(), plugin.Name, metav1.GetOptions{})
	if err != nil || now.UID != plugin.UID || now.Status.ContainerStatuses[0].RestartCount != 1 {
		t.Errorf("the plugin's pod is %+v, %v; want its container to have been started again", now.Status.ContainerStatuses, err)
	}
	r.reported("what pods hold after the crash", func(o *v1alpha1.CustomNodeResource) error { return offered(o, 3, 2, true) })

	r.remove(plugin)
	r.reported("the plugin is gone", func(o *v1alpha1.CustomNodeResource) error { return offered(o, 2, 2, false) })
	waits := r.create(r.pod("waits", requests("100m"), card))
	r.always(2*tick, "who asks for a card waits", func() error {
		now, err := r.Client.CoreV1().Pods(waits.Namespace).Get(t.Context(), waits.Name, metav1.GetOptions{})
		if err == nil && containerID(now) != "" {
			err = errors.New("it runs")
		}
		return err
	})
	r.run(r.pluginPod())
	if has, _ := r.cardOf(r.awaitRunning(waits)); has == webs {
		t.Errorf("pod waits has %s, which pod web holds", has)
	}
	if err := unchanged(); err != nil {
		t.Error(err)
	}
}

// pluginPod is a pod of the DaemonSet, but for its image, which the guest cannot get: the program comes from the node. The only scheduler here places it.
func (r *rig) pluginPod() *corev1.Pod {
	r.t.Helper()
	var set appsv1.DaemonSet
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(examples.NodePlugin, nil, &set); err != nil {
		r.t.Fatal(err)
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: set.Name, Namespace: set.Namespace, Labels: set.Spec.Template.Labels}, Spec: set.Spec.Template.Spec}
	grace, kind := int64(1), corev1.HostPathFile
	p.Spec.SchedulerName, p.Spec.TerminationGracePeriodSeconds = spec.DefaultSchedulerName, &grace
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "program", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: join.PluginPath, Type: &kind}}})
	c := &p.Spec.Containers[0]
	c.Image, c.ImagePullPolicy = join.BusyImage, corev1.PullNever
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "program", MountPath: c.Command[0], ReadOnly: true})
	return p
}
