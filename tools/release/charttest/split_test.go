package charttest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/cmd/hilbertd/peers"
	"hilbert.dev/hilbert/schedule/outside"
)

// find returns an object that was rendered.
func find(t *testing.T, all []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range all {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("no %s %s is rendered", kind, name)
	return nil
}

// sides returns the configurations of leader and schedulers.
func sides(t *testing.T, all []*unstructured.Unstructured) (leader, scheduler *spec.Configuration) {
	t.Helper()
	read := func(name, file string) *spec.Configuration {
		text, _, _ := unstructured.NestedString(find(t, all, "ConfigMap", name).Object, "data", file)
		c, err := configfile.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v in\n%s", name, err, text)
		}
		return c
	}
	return read("hilbertd", "hilbertd.yaml"), read("hilbert-scheduler", "scheduler.yaml")
}

// doorDesk tells who was let in as far as the leader's loop, and leads nothing.
type doorDesk chan string

func (d doorDesk) Join(_ context.Context, h *outside.Hello, _ string) (peers.Member, *outside.Welcome, error) {
	d <- h.Name
	return nil, nil, errors.New("this is a test")
}

// TestSchedulersAreLetIn takes the certificates that the chart generates, and what it writes into both configurations: the leader lets the scheduler in, and nobody with the leader's own
// certificate, or with those of another installation.
func TestSchedulersAreLetIn(t *testing.T) {
	files := func(all []*unstructured.Unstructured, secret string, names ...string) *peers.Files {
		data, _, _ := unstructured.NestedStringMap(find(t, all, "Secret", secret).Object, "data")
		dir := t.TempDir()
		for _, key := range []string{"tls.crt", "tls.key", "ca.crt"} {
			text, err := base64.StdEncoding.DecodeString(data[key])
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, key), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return &peers.Files{Certificate: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), Authorities: filepath.Join(dir, "ca.crt"), Names: names}
	}
	ours, others := objects(t, render(t, "{schedulers: {replicas: 2}}", newest)), objects(t, render(t, "{schedulers: {replicas: 2}}", newest))
	leader, scheduler := sides(t, ours)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	door, quiet := make(doorDesk, 1), slog.New(slog.DiscardHandler)
	server, err := peers.Serve(listener, door, files(ours, "hilbert-dispatcher", leader.Peers.SchedulerNames...), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, c := range []struct {
		name  string
		files *peers.Files
		in    bool
	}{
		{"a scheduler of another installation", files(others, "hilbert-scheduler"), false},
		{"with the leader's certificate", files(ours, "hilbert-dispatcher"), false},
		{"ours", files(ours, "hilbert-scheduler"), true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan string, 1)
		client := &peers.Client{
			Addresses: scheduler.Peers.Addresses, Files: c.files, Hello: outside.Hello{Name: c.name}, Log: slog.New(told{quiet.Handler(), refused}),
			Dial: func(ctx context.Context, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "tcp", listener.Addr().String())
			},
		}
		ended := make(chan struct{})
		go func() { defer close(ended); client.Run(ctx) }()
		select {
		case why := <-refused:
			in := false
			select {
			case name := <-door:
				in = name == c.name
			default:
			}
			if in != c.in {
				t.Errorf("%s: let in: %t; the client says: %s", c.name, in, why)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: nothing came of it", c.name)
		}
		cancel()
		<-ended
	}
}

// told hears why a client tries again.
type told struct {
	slog.Handler
	why chan string
}

func (h told) Enabled(context.Context, slog.Level) bool { return true }

func (h told) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "why" {
			select {
			case h.why <- fmt.Sprint(a.Value):
			default:
			}
		}
		return true
	})
	return nil
}

// TestSplit holds what is not visible in one golden text: names of others reach both configurations, a change of what hilbertd reads once at its start replaces pods, and without schedulers nothing
// of it is rendered.
func TestSplit(t *testing.T) {
	all := objects(t, render(t, "{schedulers: {replicas: 2, certificate: existing, names: ['spiffe://x/scheduler'], leaderName: leader.example.org, config: {logging: {level: debug}}}}", newest))
	leader, scheduler := sides(t, all)
	if !spec.IsLeader(leader.Roles) || !slices.Equal(leader.Peers.SchedulerNames, []string{"spiffe://x/scheduler"}) || !spec.IsScheduler(scheduler.Roles) || scheduler.Peers.ServerName != "leader.example.org" || scheduler.Logging.Level != "debug" {
		t.Errorf("%+v\n%+v", leader.Peers, scheduler.Peers)
	}
	if leader.Peers.TokenAudience == "" || !slices.Equal(leader.Peers.TokenUsers, []string{"system:serviceaccount:" + Namespace + ":hilbert-scheduler"}) || scheduler.Peers.TokenFile == "" {
		t.Errorf("tokens are neither asked for nor shown: %+v\n%+v", leader.Peers, scheduler.Peers)
	}
	holdToken(t, all, leader.Peers.TokenAudience, scheduler.Peers.TokenFile)
	bare := objects(t, render(t, "{schedulers: {replicas: 2, tokens: false}}", newest))
	if leader, scheduler := sides(t, bare); leader.Peers.TokenAudience != "" || scheduler.Peers.TokenFile != "" || strings.Contains(canonical(t, find(t, bare, "Deployment", "hilbert-scheduler")), "serviceAccountToken") {
		t.Errorf("tokens: false: %+v\n%+v", leader.Peers, scheduler.Peers)
	}
	for _, o := range all {
		if o.GetKind() == "Secret" && o.GetName() != "hilbertd-serving" || strings.HasPrefix(o.GetAPIVersion(), "cert-manager") {
			t.Errorf("certificates are there, and the chart renders %s", key(o))
		}
		if strings.Contains(o.GetKind(), "Role") && strings.Contains(canonical(t, o), "hilbert-scheduler") {
			t.Errorf("schedulers have rights: %s", key(o))
		}
	}
	hash := func(text, name string) string {
		h, _, _ := unstructured.NestedString(find(t, objects(t, render(t, text, newest)), "Deployment", name).Object, "spec", "template", "metadata", "annotations", "hilbert.dev/config")
		return h
	}
	for name, texts := range map[string][2]string{
		"hilbertd":          {"names: [a]", "names: [b]"},
		"hilbert-scheduler": {"leaderName: a", "leaderName: b"},
		"hilbertd ":         {"tokens: true", "tokens: false"},
	} {
		const values = "{schedulers: {replicas: 2, certificate: existing, %s}}"
		name = strings.TrimSpace(name)
		if hash(fmt.Sprintf(values, texts[0]), name) == hash(fmt.Sprintf(values, texts[1]), name) {
			t.Errorf("%s: with %s pods go on that have read %s", name, texts[1], texts[0])
		}
	}
	for _, o := range objects(t, render(t, "", newest)) {
		if text := canonical(t, o); strings.Contains(text, "peers") || strings.Contains(text, "hilbert-scheduler") {
			t.Errorf("%s without schedulers:\n%s", key(o), text)
		}
	}
}

// holdToken wants the only token in schedulers' pods to be for an audience, in a file.
func holdToken(t *testing.T, all []*unstructured.Unstructured, audience, file string) {
	t.Helper()
	d := find(t, all, "Deployment", "hilbert-scheduler")
	if mounts, found, _ := unstructured.NestedBool(d.Object, "spec", "template", "spec", "automountServiceAccountToken"); !found || mounts {
		t.Error("schedulers get a token for the API server")
	}
	volumes, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "volumes")
	containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
	mounts, _, _ := unstructured.NestedSlice(containers[0].(map[string]any), "volumeMounts")
	var got []string
	for _, v := range volumes {
		sources, _, _ := unstructured.NestedSlice(v.(map[string]any), "projected", "sources")
		for _, s := range sources {
			token, _, _ := unstructured.NestedMap(s.(map[string]any), "serviceAccountToken")
			for _, m := range mounts {
				if m := m.(map[string]any); m["name"] == v.(map[string]any)["name"] {
					got = append(got, fmt.Sprint(token["audience"], " ", m["mountPath"], "/", token["path"]))
				}
			}
		}
	}
	if want := []string{audience + " " + file}; !slices.Equal(got, want) {
		t.Errorf("tokens %v are mounted, want %v", got, want)
	}
}
