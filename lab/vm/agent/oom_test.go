package agent

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/spec"
)

// allowsSystem lets pods of the default namespace have the level system_cores, until the test ends.
func (r *rig) allowsSystem() {
	r.t.Helper()
	label := func(ctx context.Context, value string) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, spec.LabelAllowSystem, value)
		_, err := r.Client.CoreV1().Namespaces().Patch(ctx, metav1.NamespaceDefault, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	if err := label(r.t.Context(), `"true"`); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := label(ctx, "null"); err != nil {
			r.t.Error(err)
		}
	})
	r.eventually(patience, "system pods are allowed", func() error { // the policy may not know yet
		_, err := r.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(r.t.Context(), r.pod("allowed", level(spec.QoSSystem)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// once leaves a pod that was killed as it is.
func once(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }

// important has a pod a PriorityClass of this value.
func (r *rig) important(value int32) trait {
	r.t.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("important-%d", value)}, Value: value}
	if _, err := r.Client.SchedulingV1().PriorityClasses().Create(r.t.Context(), class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		r.t.Fatal(err)
	}
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = class.Name }
}

// score is the oom_score_adj of a pod's first process.
func (r *rig) score(p *corev1.Pod) int {
	r.t.Helper()
	dir, err := r.ContainerCgroup(r.t.Context(), p, container)
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := r.Guest.Shell(r.t.Context(), "cat /proc/$(head -n 1 "+dir+"/cgroup.procs)/oom_score_adj")
	if err != nil {
		r.t.Fatal(err)
	}
	score, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		r.t.Fatal(err)
	}
	return score
}

// exhaust fills the guest's memory with a file that no process holds, until the kernel has chosen so many victims, and then takes the file away. dd holds next to
// nothing, and its score is none of a pod's. The kernel is told to kill before it takes away pages that were used within a second: else it reads the programs that run from
// the disk again and again, for many minutes, before it kills. What belongs to no pod cannot be chosen meanwhile: by the agent's values the host's services go before dedicated pods.
const exhaust = `ours=""
for p in $(cat $(find /sys/fs/cgroup -name cgroup.procs -not -path "*/kubepods/*")); do
	adj=$(cat /proc/$p/oom_score_adj 2>/dev/null) || continue
	echo -1000 > /proc/$p/oom_score_adj 2>/dev/null && ours="$ours $p=$adj"
done
for f in enabled=y min_ttl_ms=1000; do [ ! -e /sys/kernel/mm/lru_gen/${f%%%%=*} ] || echo ${f#*=} > /sys/kernel/mm/lru_gen/${f%%%%=*}; done
mkdir -p /run/fill && mount -t tmpfs -o size=100%% fill /run/fill
killed() { dmesg | grep -c oom-kill:; }
until=$(( $(killed) + %d )); i=0
while [ $(killed) -lt $until ] && [ $i -lt 1000 ]; do
	dd if=/dev/zero of=/run/fill/$i bs=1048576 count=8 2>/dev/null; i=$((i+1))
done
rm -f /run/fill/*; umount /run/fill
for p in $ours; do echo ${p#*=} > /proc/${p%%%%=*}/oom_score_adj 2>/dev/null; done
echo $i`

var victim = regexp.MustCompile(`oom-kill:.*task_memcg=([^,]*)`)

// TestOOM: when the node's memory is exhausted, the kernel kills the pods in the order of their levels and priorities, though by the kubelet's scores the shared pod, which
// requested nothing and holds most, would go first. The dedicated pod is the last but one, and the system pod lives.
func TestOOM(t *testing.T) {
	long(t)
	r := newRig(t)
	r.allowsSystem()
	pods := r.run(
		r.pod("first", level(spec.QoSReclaimed), does("hold", "32"), once),
		r.pod("second", level(spec.QoSReclaimed), r.important(1_000_000), does("hold", "32"), once),
		r.pod("third", does("hold", "192"), once),
		r.pod("fourth", level(spec.QoSDedicated), annotated(spec.AnnotationNUMA, spec.NUMABound), asks("1", "256Mi"), does("hold", "128"), once),
		r.pod("last", level(spec.QoSSystem), asks("100m", "64Mi"), does("hold", "32"), once),
	)
	var scores []int
	for _, p := range pods {
		scores = append(scores, r.score(p))
	}
	t.Logf("their scores: %v", scores)
	if !slices.IsSortedFunc(scores, func(a, b int) int { return b - a }) || len(slices.Compact(slices.Clone(scores))) != len(scores) {
		t.Errorf("the scores do not fall: %v", scores)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	said, err := r.Guest.Shell(ctx, fmt.Sprintf(exhaust, len(pods)-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the memory was filled with %s times 8 MiB", strings.TrimSpace(said))
	text, err := r.Guest.Shell(ctx, "dmesg | grep oom-kill:")
	if err != nil {
		t.Fatal(err)
	}
	var killed []string
	for _, line := range victim.FindAllStringSubmatch(text, -1) {
		killed = append(killed, line[1])
	}
	if len(killed) < len(pods)-1 {
		t.Fatalf("the kernel killed %d:\n%s", len(killed), text)
	}
	for i, p := range pods[:len(pods)-1] {
		if group, id := killed[len(killed)-len(pods)+1+i], containerID(p); id == "" || !strings.Contains(group, id) {
			t.Errorf("number %d to be killed was of %s, not of pod %s", i+1, group, p.Name)
		}
	}
	if k := r.sees(); k != nil {
		if _, _, err := k.where(pods[len(pods)-1]); err != nil {
			t.Errorf("the system pod: %v", err)
		}
	}
}
