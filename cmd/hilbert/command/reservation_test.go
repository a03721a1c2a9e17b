package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/cmd/hilbertd/daemon/daemontest"
	"hilbert.dev/hilbert/kube/standin"
)

const reservationYAML = `
apiVersion: scheduling.hilbert.dev/v1alpha1
kind: Reservation
metadata: {namespace: default, name: release, uid: uid-release, generation: 1, creationTimestamp: "2126-11-20T10:00:00Z"}
spec:
  count: 2
  ttl: 4h
  owners: [{selector: {matchLabels: {app: web}}}]
  template:
    spec:
      schedulerName: hilbert
      containers: [{name: c, resources: {requests: {cpu: "3"}}}]
`

// The text of hilbert explain reservation. The first of its places is taken by the first owner; the second never had room.
const releaseExplained = `default/release keeps 2 places in queue default, with priority 0, until 2126-11-20T14:00:00Z.

PLACE  STATE     NODE  GPUS  POD    SETTLED  WHY
0      Consumed  n1    -     web-0  yes      -
1      Waiting   -     -     -      yes      -

Owners that wait: web-1

Why places wait: 0/1 nodes are available: 1 Insufficient cpu.`

// A Reservation is explained, live and from a file: which place who has, who waits, and why. What waits in the queue for it is no pod.
func TestExplainReservation(t *testing.T) {
	c := &leader{api: standin.New(t)}
	c.api.Offer("reservations.scheduling.hilbert.dev", "v1alpha1")
	c.api.Offer("priorityclasses.scheduling.k8s.io", "v1")
	c.api.SetNode(apiNode("n1", "4"))
	c.api.Set(standin.FromYAML(t, reservationYAML))
	c.hilbertd = daemontest.Start(t, c.api)
	ask := func(args ...string) string {
		out, err := run(t.Context(), t, append(args, c.hilbertd.Flags()...)...)
		if err != nil {
			return err.Error()
		}
		return out
	}
	await := func(want string, args ...string) string {
		out := ""
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if out = ask(args...); strings.Contains(out, want) {
				return out
			}
		}
		t.Fatalf("%q says, and never %q:\n%s", args, want, out)
		return ""
	}
	await("0      Reserved  n1    -     -    yes", "explain", "reservation", "release")
	for _, name := range []string{"web-0", "web-1"} {
		pod := apiPod(name, "3")
		pod.Labels = map[string]string{"app": "web"}
		c.api.SetPod(pod)
		if name == "web-0" {
			await("Consumed  n1    -     web-0  yes", "explain", "reservation", "release")
		}
	}
	await("Owners that wait: web-1", "explain", "reservation", "default/release")
	text := await("Insufficient cpu", "explain", "reservation/release")
	if !strings.HasPrefix(text, releaseExplained) {
		t.Errorf("got\n%s\nwant\n%s", text, releaseExplained)
	}
	await("unschedulable (place of a reservation)", "queue")
	if out := ask("explain", "reservation", "none"); !strings.Contains(out, "knows no Reservation default/none; its template must name the scheduler hilbert") {
		t.Errorf("one that is not there: %s", out)
	}
	file := filepath.Join(t.TempDir(), "cluster.json")
	if err := os.WriteFile(file, []byte(ask("snapshot")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, format := range [][]string{nil, {"-o", "json"}} {
		question := append([]string{"explain", "reservation", "release"}, format...)
		from, err := run(t.Context(), t, append(question, "--from", file)...)
		if err != nil {
			t.Fatal(err)
		}
		live, err := run(t.Context(), t, append(question, c.through()...)...)
		if err != nil || live != from {
			t.Errorf("%q: %v\n%s\nfrom the file:\n%s", question, err, live, from)
		}
	}
	// The target of a move of the pod that has a place, as the controller reserves it.
	c.api.Set(standin.FromYAML(t, strings.NewReplacer("name: release, uid: uid-release", `name: hilbert-move-uid-web-0, uid: uid-move, annotations: {hilbert.dev/move-of: '`+
		`{"uid":"uid-web-0","name":"web-0","workload":"web","from":"n1","to":"n2","reason":"Drain","why":"n1 is to be emptied"}'}`, "count: 2", "count: 1").Replace(reservationYAML)))
	const moved = "A move of pod web-0 from n1 to n2 is under way (Drain): n1 is to be emptied. It waits for its target to be reserved"
	await("keeps 1 place", "explain", "reservation", "hilbert-move-uid-web-0")
	for _, of := range []string{"pod/web-0", "reservation/hilbert-move-uid-web-0"} {
		if out, err := run(t.Context(), t, append([]string{"explain", of}, c.through()...)...); err != nil || !strings.Contains(out, moved) {
			t.Errorf("%s: %v\n%s", of, err, out)
		}
	}
	if out, err := run(t.Context(), t, append([]string{"explain", "pod/web-1"}, c.through()...)...); err != nil || strings.Contains(out, "A move of") {
		t.Errorf("another pod is not moved: %v\n%s", err, out)
	}
}
