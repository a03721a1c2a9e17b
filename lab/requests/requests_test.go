package requests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/requests/wordcount"
)

const (
	namespace = "batch"
	parts     = 24
)

// bookOf is a text of words.
func bookOf(words int) string {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for range words {
		fmt.Fprintf(&b, "w%d ", int(random.ExpFloat64()*20))
	}
	return b.String()
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "wordcount"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "worker", Image: "registry.example/wordcount", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}}},
	}
}

// TestWordCount: workers fail, are deleted while they run and lose their results, the master and the controller are replaced in the middle; the words are counted right, no container had two pods at once, and nothing is left over.
func TestWordCount(t *testing.T) {
	b := newBed(t)
	book := wordcount.Split(bookOf(6000), parts)
	want := make(map[string]int)
	for _, part := range book {
		for _, word := range strings.Fields(part) {
			want[word]++
		}
	}
	// Six parts fail at first, and one at first runs until somebody deletes it.
	var tries [parts]atomic.Int32
	const stuck = 7
	k := b.kubelets(func(pod *corev1.Pod) (message string, ends, fails bool) {
		var index int
		if _, err := fmt.Sscan(pod.Annotations[spec.AnnotationAskIndex], &index); err != nil {
			t.Error(err)
			return "", true, true
		}
		try := tries[index].Add(1)
		switch {
		case index == stuck && try == 1:
			return "", false, false
		case index%4 == 0 && try == 1:
			return "", true, true
		}
		message, err := wordcount.Count(book[index])
		if err != nil {
			t.Error(err)
		}
		return message, true, false
	})
	first := b.controller("first")

	m := wordcount.Master{Client: b.master("words"), Template: template(), Parts: parts}
	ctx, kill := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := m.Run(ctx)
		ended <- err
	}()
	b.until("half of the parts are counted", func() error { return b.counted("words", parts/2) })
	kill()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the first master ended with %v", err)
	}
	first.stop(t)
	// While nobody leads, the stuck worker is deleted, and a result with its pod; or that pod has failed, and was deleted by the first controller as the last it did.
	lost := b.podOf(0)
	for _, pod := range []string{b.podOf(stuck), lost} {
		err := b.admin.CoreV1().Pods(namespace).Delete(t.Context(), pod, metav1.DeleteOptions{})
		if err != nil && (pod != lost || !apierrors.IsNotFound(err)) {
			t.Error(err)
		}
	}
	b.controller("second")
	m = wordcount.Master{Client: b.master("words"), Template: template(), Parts: parts}
	got, err := m.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("counted %d words, want %d", len(got), len(want))
	}
	b.until("nothing is left over", func() error {
		list, err := b.admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("there are %d pods", len(list.Items))
		}
		return err
	})
	if tries[stuck].Load() < 2 || tries[4].Load() < 2 || tries[1].Load() != 1 {
		t.Errorf("the tries are %d, %d and %d: want a second one of the first two, and none of the third", tries[stuck].Load(), tries[4].Load(), tries[1].Load())
	}
	if twice := k.twice.Load(); twice != "" {
		t.Errorf("there were two pods at once of %v", twice)
	}
}

// TestRefusals: what the definition refuses, and that a quota refuses the pods of a request as it refuses any.
func TestRefusals(t *testing.T) {
	b := newBed(t)
	ask := func(name string, count int32) v1alpha1.ResourceAsk {
		return v1alpha1.ResourceAsk{Name: name, Count: count}
	}
	late := ask("a", 1)
	late.Locality = &v1alpha1.ResourceLocality{Nodes: &v1alpha1.NodeLocality{Names: []string{"n0"}, RelaxAfter: &metav1.Duration{Duration: 8761 * time.Hour}}}
	for want, s := range map[string]v1alpha1.ResourceRequestSpec{
		"at most 8760h":           {Template: template(), Asks: []v1alpha1.ResourceAsk{late}},
		"at most 1000 containers": {Template: template(), Asks: []v1alpha1.ResourceAsk{ask("a", 600), ask("b", 600)}},
		"Duplicate value":         {Template: template(), Asks: []v1alpha1.ResourceAsk{ask("a", 1), ask("a", 2)}},
		"spec.asks":               {Template: template(), Asks: []v1alpha1.ResourceAsk{}},
	} {
		if _, err := b.master("refused").Open(t.Context(), &s); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
	gang := b.master("gang")
	if _, err := gang.Open(t.Context(), &v1alpha1.ResourceRequestSpec{Template: template(), Gang: true, Asks: []v1alpha1.ResourceAsk{ask("a", 2)}}); err != nil {
		t.Fatal(err)
	}
	more := ask("a", 3)
	if err := gang.Ask(t.Context(), &more); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "counts of a gang") {
		t.Errorf("a gang that grows: %v", err)
	}
	if err := gang.Close(t.Context()); err != nil {
		t.Error(err)
	}
	viewer := b.masterAs("viewer", "words")
	if _, err := viewer.Open(t.Context(), &v1alpha1.ResourceRequestSpec{Template: template(), Asks: []v1alpha1.ResourceAsk{ask("a", 1)}}); !apierrors.IsForbidden(err) {
		t.Errorf("who may view has asked: %v", err)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}
	if _, err := b.admin.CoreV1().ResourceQuotas(namespace).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.controller("only")
	words := b.master("words")
	if _, err := words.Open(t.Context(), &v1alpha1.ResourceRequestSpec{Template: template(), Asks: []v1alpha1.ResourceAsk{ask("a", 2)}}); err != nil {
		t.Fatal(err)
	}
	err := words.Watch(t.Context(), func(r *v1alpha1.ResourceRequest) (bool, error) {
		for _, c := range r.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady && c.Reason == "PodsRefused" && strings.Contains(c.Message, "quota") {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Error(err)
	}
}
