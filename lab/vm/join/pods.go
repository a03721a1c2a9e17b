package join

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// podTimeout bounds the start and the end of a pod. Under emulation a start takes seconds, and a minute where the host has much else to do.
const podTimeout = 5 * time.Minute

// BusyPod is a pod of one container, "main", that runs the test bed's workload with args ("burn 2" burns two CPUs; see hilbert-vm-busy), bound
// to the node, in the namespace default. Its QoS class follows from requests and limits, as anywhere.
func (n *Node) BusyPod(name string, resources corev1.ResourceRequirements, args ...string) *corev1.Pod {
	grace := int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			NodeName:                      n.Name,
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "main", Image: BusyImage, ImagePullPolicy: corev1.PullNever, Args: args, Resources: resources,
			}},
		},
	}
}

// RunPod creates a pod and returns it when all its containers are ready. A pod that failed is an error, as is one that takes more than five minutes.
func (n *Node) RunPod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	created, err := n.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	return n.AwaitPod(ctx, created, func(p *corev1.Pod) error {
		if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
			return nil
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New(describe(p))
	})
}

// AwaitPod asks for a pod again and again until check has no error, and returns the pod as it then was. After five minutes it gives up,
// with what check said last.
func (n *Node) AwaitPod(ctx context.Context, pod *corev1.Pod, check func(*corev1.Pod) error) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, podTimeout, fmt.Errorf("not so after %s", podTimeout))
	defer cancel()
	var last *corev1.Pod
	err := until(ctx, "pod "+pod.Name+" is as wanted", func(ctx context.Context) (err error) {
		if last, err = n.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		return check(last)
	})
	if err == nil && last.Status.Phase == corev1.PodFailed {
		err = fmt.Errorf("pod %s failed: %s", pod.Name, describe(last))
	}
	return last, err
}

// describe says how far a pod is.
func describe(p *corev1.Pod) string {
	out := []string{string(p.Status.Phase), p.Status.Reason, p.Status.Message}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			out = append(out, c.Name+": "+w.Reason, w.Message)
		}
		if t := c.State.Terminated; t != nil {
			out = append(out, fmt.Sprintf("%s ended with %d: %s %s", c.Name, t.ExitCode, t.Reason, t.Message))
		}
	}
	return strings.Join(strings.Fields(strings.Join(out, " ")), " ")
}

// DeletePod deletes a pod and returns when it is gone. One that is not there is no error.
func (n *Node) DeletePod(ctx context.Context, pod *corev1.Pod) error {
	pods := n.Client.CoreV1().Pods(pod.Namespace)
	if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, podTimeout, fmt.Errorf("not so after %s", podTimeout))
	defer cancel()
	return until(ctx, "pod "+pod.Name+" is gone", func(ctx context.Context) error {
		_, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is still there"))
	})
}

// PodCgroup is the directory of a pod's cgroup in the guest, whatever the driver calls it.
func (n *Node) PodCgroup(ctx context.Context, pod *corev1.Pod) (string, error) {
	uid := string(pod.UID)
	return n.findCgroup(ctx, "pod "+pod.Name, "*pod"+uid+"*", "*pod"+strings.ReplaceAll(uid, "-", "_")+"*")
}

// ContainerCgroup is the directory of a running container's cgroup in the guest.
func (n *Node) ContainerCgroup(ctx context.Context, pod *corev1.Pod, container string) (string, error) {
	id, err := ContainerID(pod, container)
	if err != nil {
		return "", err
	}
	return n.findCgroup(ctx, "container "+container, "*"+id+"*", "*"+id+"*")
}

// findCgroup finds the outermost directory that has one of two names.
func (n *Node) findCgroup(ctx context.Context, what, name, other string) (string, error) {
	// Cgroups of others go while find reads them, which it calls an error.
	out, err := n.Guest.Shell(ctx, fmt.Sprintf("find /sys/fs/cgroup -type d \\( -name '%s' -o -name '%s' \\) -prune 2>/dev/null; true", name, other))
	if err != nil {
		return "", err
	}
	found := strings.Fields(out)
	if len(found) != 1 {
		return "", fmt.Errorf("%s has cgroups %q in the guest, want one", what, found)
	}
	return found[0], nil
}

// ContainerID is the runtime's name of a container of a pod, by what the pod's status says.
func ContainerID(pod *corev1.Pod, container string) (string, error) {
	for _, c := range pod.Status.ContainerStatuses {
		if _, id, ok := strings.Cut(c.ContainerID, "://"); ok && c.Name == container {
			return id, nil
		}
	}
	return "", fmt.Errorf("pod %s has no container %s that was started", pod.Name, container)
}

// PIDs are the processes of a container, as the guest numbers them.
func (n *Node) PIDs(ctx context.Context, pod *corev1.Pod, container string) ([]int, error) {
	cgroup, err := n.ContainerCgroup(ctx, pod, container)
	if err != nil {
		return nil, err
	}
	text, err := n.Guest.ReadFile(ctx, cgroup+"/cgroup.procs")
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(text) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s/cgroup.procs says %q", cgroup, text)
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("container %s of pod %s has no process", container, pod.Name)
	}
	return pids, nil
}

// Logs is what a pod's container has said, through the API server and the kubelet.
func (n *Node) Logs(ctx context.Context, pod *corev1.Pod, container string) (string, error) {
	text, err := n.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container}).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("logs of pod %s: %w", pod.Name, err)
	}
	return string(text), nil
}

// ExecIn runs a command in a container, through the API server and the kubelet, and returns what it wrote to standard output.
func (n *Node) ExecIn(ctx context.Context, pod *corev1.Pod, container string, argv ...string) (string, error) {
	request := n.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: argv, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(n.Plane.AdminConfig(), "GET", request.URL().String())
	if err != nil {
		return "", fmt.Errorf("exec in pod %s: %w", pod.Name, err)
	}
	var stdout, stderr strings.Builder
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr}); err != nil {
		return stdout.String(), fmt.Errorf("exec in pod %s: %w: %s", pod.Name, err, stderr.String())
	}
	return stdout.String(), nil
}
