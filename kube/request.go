package kube

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

const (
	contentProtobuf       = runtime.ContentTypeProtobuf
	contentStrategicMerge = string(types.StrategicMergePatchType)
	contentMerge          = string(types.MergePatchType)
	contentApply          = string(types.ApplyPatchType)
	contentJSON           = runtime.ContentTypeJSON
	// fieldManager is who owns what hilbertd applies.
	fieldManager = "hilbertd"
	// acceptMetadata asks for as little of a patched pod as there is: nobody reads it.
	acceptMetadata = contentProtobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," + contentProtobuf
)

const (
	// maxAnswer bounds what is read of an answer: a Status has a few hundred bytes.
	maxAnswer = 1 << 20
	// maxObject bounds what is read of an object, in bytes: etcd takes 1.5 MiB.
	maxObject = 4 << 20
)

// requester makes HTTP calls over a transport of client-go's, without its REST client: that one would repeat a write by itself, and costs
// more CPU than the rest of a Binding.
type requester struct {
	transport http.RoundTripper
	base      url.URL
	agent     string
}

func newRequester(c *Connection) (*requester, error) {
	transport, err := rest.TransportFor(c)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return nil, err
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	return &requester{transport: transport, base: *base, agent: c.UserAgent}, nil
}

func (r *requester) closeIdle() {
	if closer, ok := r.transport.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// call is one request to an object, or to a subresource of it.
type call struct {
	method, path string // the path begins behind the server's own
	pod          string // its name, of requests to pods
	subresource  string // of the pod
	contentType  string
	accept       string // empty: acceptMetadata
	body         []byte
	reads        bool   // what a write answers matters
	dryRun       bool   // nothing is written
	query        string // more parameters, escaped: "a=b&c=d"
}

// about makes the call one to a pod, or to a subresource of it.
func (c *call) about(namespace, pod, subresource string) {
	c.path, c.pod, c.subresource = "/api/v1/namespaces/"+namespace+"/pods/"+pod, pod, subresource
	if subresource != "" {
		c.path += "/" + subresource
	}
}

// answer is what came back. err is set when no answer came.
type answer struct {
	code       int
	body       []byte        // of a success, if it is a GET or a call that reads
	status     metav1.Status // of a failure, as far as it could be read
	retryAfter time.Duration
	err        error
}

// do makes one call. The API server is told the timeout too, so that it does not go on with what we have given up.
func (r *requester) do(ctx context.Context, c *call, timeout time.Duration) answer {
	target := r.base
	target.Path += c.path
	target.RawQuery = "timeout=" + timeout.String()
	if c.contentType == contentApply {
		target.RawQuery += "&force=true&fieldManager=" + fieldManager
	}
	if c.dryRun {
		target.RawQuery += "&dryRun=" + metav1.DryRunAll
	}
	if c.query != "" {
		target.RawQuery += "&" + c.query
	}
	request := (&http.Request{
		Method: c.method, URL: &target, Host: target.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type": {c.contentType}, "Accept": {cmp.Or(c.accept, acceptMetadata)}, "User-Agent": {r.agent},
		},
		Body:          io.NopCloser(bytes.NewReader(c.body)),
		ContentLength: int64(len(c.body)),
		// GetBody lets the transport repeat a request that it knows was not processed (a connection that had just been closed).
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.body)), nil },
	}).WithContext(ctx)
	response, err := r.transport.RoundTrip(request)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	a := answer{code: response.StatusCode}
	if a.code < 300 && (c.reads || c.method == http.MethodGet) {
		a.body, a.err = io.ReadAll(io.LimitReader(response.Body, maxObject))
		return a
	}
	if a.code < 300 {
		_, _ = io.CopyN(io.Discard, response.Body, maxAnswer) // the code says it all; reading frees the connection
		return a
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		a.retryAfter = time.Duration(seconds) * time.Second
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	a.status = decodeStatus(body, a.code)
	return a
}

// decodeStatus reads the Status of a failure; what is none (a proxy's page) becomes one.
func decodeStatus(body []byte, code int) metav1.Status {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if status, ok := object.(*metav1.Status); err == nil && ok {
		return *status
	}
	const excerpt = 200
	text := strings.TrimSpace(strings.ToValidUTF8(string(body[:min(len(body), excerpt)]), "?"))
	return metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Message: fmt.Sprintf("HTTP %d: %s", code, text)}
}

// protobufPrefix heads every protobuf body of the Kubernetes API.
var protobufPrefix = []byte("k8s\x00")

// bindingBody encodes a Binding, with the UID as a precondition, and what is promised as annotations.
func bindingBody(w *bind.Write) ([]byte, error) {
	b := corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name, UID: types.UID(w.Pod)},
		Target:     corev1.ObjectReference{Kind: "Node", Name: w.Node},
	}
	reclaims := w.Reclaimed != spec.ReclaimedAmounts{}
	if !w.Grant.IsZero() || reclaims {
		b.Annotations = make(map[string]string, 2)
	}
	if reclaims {
		b.Annotations[spec.AnnotationReclaimed] = w.Reclaimed.String()
		b.Annotations[spec.AnnotationPriority] = strconv.Itoa(int(w.Priority))
	}
	if w.Grant.GPUs != 0 {
		b.Annotations[spec.AnnotationGPUs] = w.Grant.GPUText()
	}
	if w.Grant.NICs != 0 {
		b.Annotations[spec.AnnotationNICs] = w.Grant.NICText()
	}
	if !w.Grant.Zones.IsZero() {
		b.Annotations[spec.AnnotationZones] = w.Grant.Zones.String()
	}
	raw, err := b.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode the Binding of %s/%s: %w", w.Namespace, w.Name, err)
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Binding"}, Raw: raw}
	body := make([]byte, len(protobufPrefix)+envelope.Size())
	copy(body, protobufPrefix)
	if _, err := envelope.MarshalTo(body[len(protobufPrefix):]); err != nil {
		return nil, fmt.Errorf("encode the Binding of %s/%s: %w", w.Namespace, w.Name, err)
	}
	return body, nil
}

// read asks for the pod with a consistent read: without a resource version the API server answers from what is agreed.
func (w *Writer) read(ctx context.Context, write *bind.Write) bind.Result {
	pod, err := w.pods.Pods(write.Namespace).Get(ctx, write.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return bind.Result{Outcome: bind.Gone}
	case err != nil:
		return bind.Result{Outcome: bind.Unknown, Message: err.Error()}
	case facts.UID(pod.UID) != write.Pod:
		return bind.Result{Outcome: bind.Gone}
	}
	return bind.Result{Outcome: bind.Written, Node: pod.Spec.NodeName}
}
