package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

const (
	ContentProtobuf       = runtime.ContentTypeProtobuf
	ContentStrategicMerge = string(types.StrategicMergePatchType)
	ContentMerge          = string(types.MergePatchType)
	ContentApply          = string(types.ApplyPatchType)
	ContentJSON           = runtime.ContentTypeJSON
	// fieldManager is who owns what hilbertd applies.
	fieldManager = "hilbertd"
	// AcceptMetadata asks for as little of a patched pod as there is: nobody reads it.
	AcceptMetadata = ContentProtobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," + ContentProtobuf
)

// AcceptMetadataJSON asks for as little of a custom object as there is.
const AcceptMetadataJSON = ContentJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," + ContentJSON

// ErrNoDefinition is returned when the API server knows no CustomNodeResources.
var ErrNoDefinition = errors.New("the API server has no CustomNodeResources: kubectl apply -f deploy/crds")

// MaxEventNote bounds the note of an event, in bytes, as the API server does.
const MaxEventNote = 1024

// EventNote is a text as an event may have it: cut to MaxEventNote, and no letter in two. Half a letter would be written as a longer one, and the event refused.
func EventNote(text string) string {
	if len(text) > MaxEventNote {
		text = strings.ToValidUTF8(text[:MaxEventNote], "")
	}
	return text
}

const (
	// maxAnswer bounds what is read of an answer: a Status has a few hundred bytes.
	maxAnswer = 1 << 20
	// maxObject bounds what is read of an object, in bytes: etcd takes 1.5 MiB.
	maxObject = 4 << 20
)

// Requester makes HTTP calls over a transport of client-go's, without its REST client: that one would repeat a write by itself, and costs
// more CPU than the rest of a Binding.
type Requester struct {
	transport http.RoundTripper
	base      url.URL
	agent     string
}

func NewRequester(c *Connection) (*Requester, error) {
	transport, err := rest.TransportFor(c)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return nil, err
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	return &Requester{transport: transport, base: *base, agent: c.UserAgent}, nil
}

func (r *Requester) CloseIdle() {
	if closer, ok := r.transport.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// Call is one request to an object, or to a subresource of it.
type Call struct {
	Method, Path string // the Path begins behind the server's own
	Pod          string // its name, of requests to pods
	Subresource  string // of the pod
	ContentType  string
	Accept       string // empty: AcceptMetadata
	Body         []byte
	Reads        bool   // what a write answers matters
	Query        string // more parameters, escaped: "a=b&c=d"
}

// About makes the call one to a pod, or to a subresource of it.
func (c *Call) About(namespace, pod, subresource string) {
	c.Path, c.Pod, c.Subresource = "/api/v1/namespaces/"+namespace+"/pods/"+pod, pod, subresource
	if subresource != "" {
		c.Path += "/" + subresource
	}
}

// Answer is what came back. err is set when no Answer came.
type Answer struct {
	Code       int
	Body       []byte        // of a success, if it is a GET or a call that reads
	Status     metav1.Status // of a failure, as far as it could be read
	RetryAfter time.Duration
	Err        error
}

// Do makes one call. The API server is told the timeout too, so that it does not go on with what we have given up.
func (r *Requester) Do(ctx context.Context, c *Call, timeout time.Duration) Answer {
	target := r.base
	target.Path += c.Path
	target.RawQuery = "timeout=" + timeout.String()
	if c.ContentType == ContentApply {
		target.RawQuery += "&force=true&fieldManager=" + fieldManager
	}
	if c.Query != "" {
		target.RawQuery += "&" + c.Query
	}
	request := (&http.Request{
		Method: c.Method, URL: &target, Host: target.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type": {c.ContentType}, "Accept": {cmp.Or(c.Accept, AcceptMetadata)}, "User-Agent": {r.agent},
		},
		Body:          io.NopCloser(bytes.NewReader(c.Body)),
		ContentLength: int64(len(c.Body)),
		// GetBody lets the transport repeat a request that it knows was not processed (a connection that had just been closed).
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.Body)), nil },
	}).WithContext(ctx)
	response, err := r.transport.RoundTrip(request)
	if err != nil {
		return Answer{Err: err}
	}
	defer func() { _ = response.Body.Close() }()
	a := Answer{Code: response.StatusCode}
	if a.Code < 300 && (c.Reads || c.Method == http.MethodGet) {
		a.Body, a.Err = io.ReadAll(io.LimitReader(response.Body, maxObject))
		return a
	}
	if a.Code < 300 {
		_, _ = io.CopyN(io.Discard, response.Body, maxAnswer) // the code says it all; reading frees the connection
		return a
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		a.RetryAfter = time.Duration(seconds) * time.Second
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	a.Status = decodeStatus(body, a.Code)
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

// Failure says what an answer that is no success says.
func (a *Answer) Failure(did string) error {
	switch {
	case a.Err != nil:
		return fmt.Errorf("%s: %w", did, a.Err)
	case a.Code < http.StatusMultipleChoices:
		return nil
	}
	return fmt.Errorf("%s: the API server answers %d: %s", did, a.Code, a.Status.Message)
}

// Pause waits for d. It returns false at once where ctx would end first, and when ctx ends.
func Pause(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
