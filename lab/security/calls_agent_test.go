package security

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubelet "k8s.io/kubernetes/pkg/kubelet/server"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/cmd/hilbertd/realnode"
	"hilbert.dev/hilbert/cmd/hilbertd/realnode/realnodetest"
	"hilbert.dev/hilbert/node/egress"
	"hilbert.dev/hilbert/node/observe"
)

// agentNode is a node of its own, for the agent makes its report.
const agentNode = "n4"

// TestAgentAsksForWhatItMay runs an agent with its account's token, as deploy/ does, on a machine that has GPUs for all it knows and a kubelet that asks the API server
// about the agent as kubelets do. What it asks of both is compared with what its roles grant. A watchdog beside it asks for nothing.
func TestAgentAsksForWhatItMay(t *testing.T) {
	b := &cluster
	if err := b.addNode(t.Context(), agentNode); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // else hilbertd has more nodes than its test wants
		ctx := context.WithoutCancel(t.Context())
		err := errors.Join(b.admin.CoreV1().Nodes().Delete(ctx, agentNode, metav1.DeleteOptions{}), send(ctx, b.admin, "DELETE", nodesPath+"/"+agentNode, ""))
		if err != nil {
			t.Error(err)
		}
	})
	agent, err := b.tokenOf(t.Context(), system, "hilbert-agent", agentNode)
	if err != nil {
		t.Fatal(err)
	}
	k := &askedKubelet{api: b.admin, asked: make(map[string]bool)}
	roots := k.serve(t, agent.BearerToken)
	startRuntime(t, roots)
	runNodeRole(t, spec.RoleAgent, agent, roots)

	// The watchdog has no credentials in deploy/. Here it has some, so that a request of its own would be seen.
	other, err := b.tokenOf(t.Context(), system, "hilbert-agent", "n2")
	if err != nil {
		t.Fatal(err)
	}
	watchdog := runNodeRole(t, spec.RoleWatchdog, other, roots)

	b.heldToItsCalls(t, "hilbert-agent", func() (map[string]bool, error) {
		out, err := b.askedVerbs("hilbert-agent", "hilbert-agent-"+agentNode)
		maps.Copy(out, k.verbs())
		return out, err
	})
	if err := until(t.Context(), func() error { return looked(t.Context(), watchdog) }); err != nil {
		t.Error(err)
	}
	if asked, err := b.askedVerbs("hilbert-agent", "hilbert-agent-n2"); err != nil || len(asked) > 0 {
		t.Errorf("the watchdog asks the API server for %v, %v", asked, err)
	}
}

// looked reports whether a watchdog has looked at the agent more than once.
func looked(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(line, "hilbert_watchdog_looks_total "); ok {
			if looks, err := strconv.ParseFloat(strings.TrimSpace(count), 64); err != nil || looks < 2 {
				return fmt.Errorf("the watchdog has looked %s times, %w", count, err)
			}
			return nil
		}
	}
	return errors.New("the watchdog does not say how often it has looked")
}

// socket is where the container runtime of a machine has NRI.
func socket(roots *realnode.Roots) string { return filepath.Join(filepath.Dir(roots.Sys), "nri.sock") }

// startRuntime starts the runtime's side of NRI, with nothing that runs. Before that is known, an agent reports nothing.
func startRuntime(t *testing.T, roots *realnode.Roots) {
	t.Helper()
	r, err := adaptation.New("containerd", "2.4.2", func(ctx context.Context, sync adaptation.SyncCB) error {
		_, err := sync(ctx, nil, nil)
		return err
	}, func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil },
		adaptation.WithSocketPath(socket(roots)), adaptation.WithPluginPath(t.TempDir()), adaptation.WithPluginConfigPath(t.TempDir()))
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
}

// runNodeRole runs an agent or a watchdog until the test ends, and returns where it answers.
func runNodeRole(t *testing.T, role spec.Role, user *rest.Config, roots *realnode.Roots) string {
	t.Helper()
	dir := filepath.Dir(roots.Sys)
	config := spec.Default()
	config.Roles, config.Server.BindAddress = []spec.Role{role}, "127.0.0.1:0"
	n := &config.Node
	n.Name, n.StateDirectory, n.KubeletDirectory, n.NRISocket = agentNode, filepath.Join(dir, "state"), filepath.Join(dir, "kubelet"), socket(roots)
	n.TickInterval = spec.Duration(50 * time.Millisecond)
	connection := rest.CopyConfig(user)
	connection.QPS = -1
	return runHilbertd(t, config, daemon.Options{Connection: connection, Roots: roots})
}

// askedKubelet is as much of a kubelet as an agent asks. Who asks, and whether they may, it asks the API server, about the rights that a kubelet asks about.
type askedKubelet struct {
	api kubernetes.Interface

	mu    sync.Mutex
	asked map[string]bool // "verb resource.group"
}

func (k *askedKubelet) verbs() map[string]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.asked)
}

// serve starts it, and returns the machine on which it runs with the lab's guest's CPUs.
func (k *askedKubelet) serve(t *testing.T, token string) *realnode.Roots {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	machine, err := os.ReadFile("../../node/machine/testdata/sysfs/guest")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(machine)) {
		// Without the PCI bus there might be a GPU.
		if name, content, file := strings.Cut(line, " ="); file && strings.Contains(name, "devices/system") {
			write(filepath.Join("sys", name), strings.TrimPrefix(content, " "))
		}
	}
	write("proc/pressure/cpu", "")
	server := httptest.NewTLSServer(k)
	t.Cleanup(server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	write("kubelet/pki/kubelet.crt", string(certificate))
	write("account/token", token)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	return &realnode.Roots{
		Sys: in("sys"), Proc: in("proc"), Run: in("run"), Dev: in("dev"), CDI: []string{in("cdi")}, Observed: observe.Root(dir),
		Kernel:         func() (realnode.KernelFiles, error) { return realnodetest.NewCgroups(), nil },
		Uncap:          func(egress.Options) error { return nil },
		KubeletAddress: at.Hostname(), KubeletPort: port, ServiceAccount: in("account"),
	}
}

// ServeHTTP implements http.Handler.
func (k *askedKubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	allowed, err := k.authorize(r)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case !allowed:
		http.Error(w, "Forbidden", http.StatusForbidden)
	case r.URL.Path == "/configz":
		_, _ = io.WriteString(w, `{"kubeletconfig":{"cpuManagerPolicy":"none","memoryManagerPolicy":"None","evictionHard":{"memory.available":"100Mi"}}}`)
	default:
		_, _ = io.WriteString(w, `{"node":{"nodeName":"`+agentNode+`"},"pods":[]}`)
	}
}

// authorize asks the API server whose token it is and then, one after the other, about the rights of which one is enough. The first of them is what was asked for: the
// others are wider, and kubelets know them from before there were finer ones.
func (k *askedKubelet) authorize(r *http.Request) (allowed bool, err error) {
	review, err := k.api.AuthenticationV1().TokenReviews().Create(r.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")},
	}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated {
		return false, err
	}
	who := review.Status.User
	rights := kubelet.NewNodeAuthorizerAttributesGetter(types.NodeName(agentNode)).GetRequestAttributes(r.Context(), &user.DefaultInfo{Name: who.Username, Groups: who.Groups}, r)
	for i, right := range rights {
		resource := right.GetResource() + "/" + right.GetSubresource()
		if i == 0 {
			k.mu.Lock()
			k.asked[fmt.Sprintf("%s %s.%s", right.GetVerb(), resource, right.GetAPIGroup())] = true
			k.mu.Unlock()
		}
		answer, err := k.api.AuthorizationV1().SubjectAccessReviews().Create(r.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who.Username, Groups: who.Groups, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: right.GetVerb(), Group: right.GetAPIGroup(), Resource: right.GetResource(), Subresource: right.GetSubresource(), Name: right.GetName(),
			},
		}}, metav1.CreateOptions{})
		if err != nil || answer.Status.Allowed {
			return err == nil, err
		}
	}
	return false, nil
}
