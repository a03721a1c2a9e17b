package agent

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/topology"
)

// podResourcesMessage was encoded by k8s.io/kubelet v0.37.0: a pod without exclusive CPUs, one with CPUs of its own and of a container, a
// device and memory, and one with two containers.
const podResourcesMessage = "0a130a03776562120764656661756c741a030a01630a500a026462120470726f641a240a036c6f67121d0a0e6e76696469612e636f6d" +
	"2f67707512054750552d311a040a0208011a180a0264621a020203220e0a066d656d6f727910808080802022040203c8010a1f0a056361636865120470726f641a060a0161" +
	"1a01041a080a01621a0305e807"

func framed(message []byte) []byte {
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return append(frame, message...)
}

func recordedFrame(t testing.TB) []byte {
	t.Helper()
	message, err := hex.DecodeString(podResourcesMessage)
	if err != nil {
		t.Fatal(err)
	}
	return framed(message)
}

// serveKubelet answers on a socket as gRPC does.
func serveKubelet(t *testing.T, handler http.HandlerFunc) *PodResources {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	p := NewPodResources(socket, time.Minute)
	t.Cleanup(func() {
		p.Close()
		_ = server.Close()
		<-done
	})
	return p
}

func grpcAnswer(status string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.URL.Path != "/v1.PodResourcesLister/List" || r.Header.Get("Content-Type") != "application/grpc" || r.Header.Get("Te") != "trailers" {
			status = "12"
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
		_, _ = w.Write(body)
		if status != "" {
			w.Header().Set("Grpc-Status", status)
		}
		if status != "0" {
			w.Header().Set("Grpc-Message", "no")
		}
	}
}

func TestPodResources(t *testing.T) {
	pods, err := serveKubelet(t, grpcAnswer("0", recordedFrame(t))).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pods {
		got = append(got, fmt.Sprintf("%s/%s %s %v %v", p.Namespace, p.Name, p.CPUs, p.Containers, p.Devices))
	}
	want := "default/web  map[] []; prod/cache 4-5,1000 map[a:4 b:5,1000] []; prod/db 2-3,200 map[db:2-3] [{nvidia.com/gpu GPU-1}]"
	if strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
	if pods, err := serveKubelet(t, grpcAnswer("0", framed(nil))).List(t.Context()); err != nil || pods != nil {
		t.Errorf("nobody: %v, %v", pods, err)
	}
}

// What is not a whole good answer is an error: it must not read as "nobody has exclusive CPUs".
func TestPodResourcesRefused(t *testing.T) {
	whole := recordedFrame(t)
	for want, handler := range map[string]http.HandlerFunc{
		`gRPC status "14": no`:   grpcAnswer("14", nil),
		"the answer breaks off":  grpcAnswer("", whole),
		"malformed frame":        grpcAnswer("0", whole[:len(whole)-1]),
		"CPU 1024: want less":    grpcAnswer("0", framed([]byte{0x0a, 3, 0x20, 0x80, 0x08})),
		"malformed protobuf":     grpcAnswer("0", framed([]byte{0x0a, 9, 1})),
		"HTTP 404":               func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"more than 16777216 byt": grpcAnswer("0", make([]byte, maxPodResources+2)),
	} {
		pods, err := serveKubelet(t, handler).List(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || pods != nil {
			t.Errorf("%v, %v; want %s", pods, err, want)
		}
	}
	if _, err := NewPodResources(filepath.Join(t.TempDir(), "none"), time.Second).List(t.Context()); err == nil {
		t.Error("nobody answers, and that is no error")
	}
}

// Devices are each of their own resource, whichever stands first, and once, however many containers share them.
func TestPodResourcesDevices(t *testing.T) {
	field := func(number byte, data ...byte) []byte { return append([]byte{number<<3 | 2, byte(len(data))}, data...) }
	devices := func(resource string, ids ...string) (out []byte) {
		for _, id := range ids {
			out = append(out, field(2, []byte(id)...)...)
		}
		return field(2, append(out, field(1, []byte(resource)...)...)...)
	}
	container := field(3, slices.Concat(devices("nvidia.com/gpu", "GPU-b", "GPU-a"), devices("nvidia.com/mig-1g.5gb", "MIG-x"))...)
	pod := field(1, slices.Concat(field(1, 'p'), field(2, 'n'), container, field(3, devices("nvidia.com/gpu", "GPU-a")...))...)
	pods, err := serveKubelet(t, grpcAnswer("0", framed(pod))).List(t.Context())
	if want := "[{n p  map[] [{nvidia.com/gpu GPU-a} {nvidia.com/gpu GPU-b} {nvidia.com/mig-1g.5gb MIG-x}]}]"; err != nil || fmt.Sprint(pods) != want {
		t.Errorf("%v, %v; want %s", pods, err, want)
	}
}

// Nothing that a socket can say makes the parser panic, and a part of a message that is malformed spoils all of it.
func FuzzPodResources(f *testing.F) {
	f.Add(recordedFrame(f))
	f.Add(framed([]byte{0x0a, 2, 0x20, 1}))
	f.Add(framed([]byte{0x0a, 0x7f, 1})) // a length beyond the message
	f.Fuzz(func(t *testing.T, frame []byte) {
		pods, err := parsePodResources(frame)
		if err != nil && pods != nil {
			t.Fatal("an answer and an error")
		}
		for _, p := range pods {
			for name, set := range p.Containers {
				if set == (topology.CPUSet{}) || !set.Minus(p.CPUs).IsEmpty() {
					t.Fatalf("container %q of %+v", name, p)
				}
			}
			for i := 1; i < len(p.Devices); i++ {
				if a, b := p.Devices[i-1], p.Devices[i]; a.Resource > b.Resource || a.Resource == b.Resource && a.ID >= b.ID {
					t.Fatalf("devices of %+v", p)
				}
			}
		}
	})
}
