package demo

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/hollow"
)

func TestDemoManifestsScaleWithTheNodes(t *testing.T) {
	for nodes, want := range map[int][2]int{1: {18, 40}, 50: {400, 600}, 1000: {8000, 12000}} {
		w, err := Manifests(nodes)
		if err != nil {
			t.Fatal(err)
		}
		if n := w.pods(); n < want[0] || n > want[1] {
			t.Errorf("%d nodes get %d pods, want %d to %d", nodes, n, want[0], want[1])
		}
		if len(w.shapes()) != nodes {
			t.Errorf("%d nodes: %d shapes", nodes, len(w.shapes()))
		}
	}
	for _, nodes := range []int{-1, 0, MaxNodes + 1} {
		if _, err := Manifests(nodes); err == nil {
			t.Errorf("%d nodes were accepted", nodes)
		}
	}
}

// TestDemoManifestsAreHilberts: every pod names the scheduler, its kind of work and, where it is offline, how long it runs.
func TestDemoManifestsAreHilberts(t *testing.T) {
	w, err := Manifests(1000)
	if err != nil {
		t.Fatal(err)
	}
	online, jobs := 0, 0
	for _, object := range w.(*manifests).objects {
		var template *corev1.PodTemplateSpec
		switch o := object.(type) {
		case *appsv1.Deployment:
			template = &o.Spec.Template
			online++
			check(t, o.Name+" is", template.Labels[labelWork], "online")
		case *batchv1.Job:
			template = &o.Spec.Template
			jobs++
			check(t, o.Name+" is", template.Labels[labelWork], offline)
			if template.Annotations[hollow.AnnotationRunSeconds] == "" {
				t.Errorf("%s never ends", o.Name)
			}
		default:
			continue
		}
		name := nameOf(object)
		check(t, name+" is scheduled by", template.Spec.SchedulerName, spec.DefaultSchedulerName)
		if template.Labels[labelApp] == "" || template.Spec.PriorityClassName == "" {
			t.Errorf("%s has no app label or no priority class", name)
		}
		if why := validation.NameIsDNSSubdomain(template.Labels[labelApp], false); len(why) > 0 {
			t.Errorf("%s: %v", name, why)
		}
	}
	if online < 5 || jobs < 5 {
		t.Errorf("%d services and %d jobs: not much of a mix", online, jobs)
	}
}

func TestManifestErrorsNameFileAndDocument(t *testing.T) {
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\nkind: [": "x.yaml: document 2",
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\n":               "does not create a Service",
		"apiVersion: v9\nkind: Pod\n":                                        "x.yaml: document 1",
	} {
		if _, err := readManifests("x.yaml", []byte(text), 10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", text, err, want)
		}
	}
	m, err := readManifests("x.yaml", []byte("# only\n---\n# comments\n"), 10)
	if err != nil || len(m.objects) != 0 {
		t.Errorf("comments: got %v, %v", m, err)
	}
}
