package moves

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
)

const reservationsPath = "/apis/scheduling.hilbert.dev/v1alpha1/namespaces/default/reservations"

// judge notes at which version of the store each pod began to be deleted, and each target was reserved or lost.
type judge struct {
	t  *testing.T
	mu sync.Mutex
	// by the UID of the pod
	deleted, reserved, lost map[types.UID]uint64
	names                   map[types.UID]string
	done                    sync.WaitGroup
	stop                    context.CancelFunc
}

// newJudge looks at pods that have a label.
func newJudge(t *testing.T, b *bed, label string) *judge {
	j := &judge{t: t, deleted: make(map[types.UID]uint64), reserved: make(map[types.UID]uint64), lost: make(map[types.UID]uint64), names: make(map[types.UID]string)}
	ctx, cancel := context.WithCancel(t.Context())
	j.stop = cancel
	pods, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		t.Fatal(err)
	}
	j.done.Go(func() {
		for event := range pods.ResultChan() {
			if p, ok := event.Object.(*corev1.Pod); ok && p.DeletionTimestamp != nil {
				j.note(j.deleted, p.UID, p.ResourceVersion, p.Name)
			}
		}
	})
	stream, err := b.admin.Discovery().RESTClient().Get().AbsPath(reservationsPath).Param("watch", "true").SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	j.done.Go(func() {
		defer func() { _ = stream.Close() }()
		for decoder := json.NewDecoder(stream); ; {
			var event struct{ Object v1alpha1.Reservation }
			if decoder.Decode(&event) != nil {
				return
			}
			reserved, lost := 0, false
			for _, place := range event.Object.Status.Places {
				switch place.State {
				case "Reserved":
					reserved++
				case "Lost":
					lost = true
				}
			}
			for _, pod := range movedBy(&event.Object) {
				if reserved == int(event.Object.Spec.Count) { // of a gang, all of its places
					j.note(j.reserved, pod, event.Object.ResourceVersion, "")
				}
				if lost {
					j.note(j.lost, pod, event.Object.ResourceVersion, "")
				}
			}
		}
	})
	return j
}

// movedBy are the pods that a Reservation is for: one, or all of a gang's.
func movedBy(r *v1alpha1.Reservation) (list []types.UID) {
	var what struct{ Members []struct{ UID types.UID } }
	if json.Unmarshal([]byte(r.Annotations[spec.AnnotationMove]), &what) == nil {
		for _, m := range what.Members {
			list = append(list, m.UID)
		}
	}
	if len(list) == 0 {
		list = append(list, types.UID(strings.TrimPrefix(r.Name, v1alpha1.MovePrefix)))
	}
	return list
}

// note keeps the first version.
func (j *judge) note(in map[types.UID]uint64, uid types.UID, version, name string) {
	at, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		j.t.Error(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, known := in[uid]; !known {
		in[uid] = at
	}
	if name != "" {
		j.names[uid] = name
	}
}

// verdict says how many pods were evicted, and what was wrong.
func (j *judge) verdict() (evicted int, wrong []string) {
	j.stop()
	j.done.Wait()
	for uid, at := range j.deleted {
		reserved, known := j.reserved[uid]
		switch lost := j.lost[uid]; {
		case !known:
			wrong = append(wrong, fmt.Sprintf("%s was evicted, and no target was reserved for it", j.names[uid]))
		case reserved >= at:
			wrong = append(wrong, fmt.Sprintf("%s was evicted at %d, and its target was reserved at %d", j.names[uid], at, reserved))
		case lost > 0:
			wrong = append(wrong, fmt.Sprintf("the target of %s was lost, and nobody took it", j.names[uid]))
		}
	}
	return len(j.deleted), wrong
}
