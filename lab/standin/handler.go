package standin

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// maxBody bounds a request's body, as etcd does an object.
const maxBody = 3 << 20

var (
	statusKind  = schema.GroupVersionKind{Version: "v1", Kind: "Status"}
	errNoObject = errors.New("the kind has no metadata or no protobuf encoding")
)

// handler takes requests apart, has the store do them, and answers as the real API server would.
type handler struct {
	store *store
	token string
	calls calls
}

// query is what a request asks for.
type query struct {
	resource, namespace, name, sub string
	version                        string
	watch, initialEvents           bool
	selected                       func(object) bool
}

// parse reads /api/v1/[namespaces/NS/]RESOURCE[/NAME[/SUB]] or /apis/GROUP/VERSION/…. It returns nil for a path that is not served.
func (h *handler) parse(r *http.Request) (*query, *collection, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var version schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		version, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		version, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return nil, nil, nil
	}
	q := &query{}
	if parts[0] == "namespaces" && len(parts) > 2 {
		q.namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	q.resource, q.name, q.sub = parts[0], parts[1], parts[2]
	c := h.store.collections[q.resource]
	if c == nil || c.kind.GroupVersion() != version {
		return nil, nil, nil
	}
	values := r.URL.Query()
	q.version, q.initialEvents = values.Get("resourceVersion"), values.Get("sendInitialEvents") == "true"
	q.watch = values.Get("watch") == "true" || values.Get("watch") == "1"
	return q, c, q.selectBy(values)
}

// selectBy reads the selectors, by labels and by fields: of pods those fields that schedulers select by, of anything the name and the namespace.
func (q *query) selectBy(values url.Values) error {
	selector, err := fields.ParseSelector(values.Get("fieldSelector"))
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	byLabels, err := labels.Parse(values.Get("labelSelector"))
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	for _, r := range selector.Requirements() {
		pod := q.resource == "pods" && (r.Field == "status.phase" || r.Field == "spec.nodeName" || r.Field == "spec.schedulerName")
		if !pod && r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return apierrors.NewBadRequest("field label not supported: " + r.Field)
		}
	}
	everything := selector.Empty()
	q.selected = func(o object) bool {
		if !byLabels.Matches(labels.Set(o.GetLabels())) {
			return false
		}
		if everything {
			return true
		}
		set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
		if pod, ok := o.(*corev1.Pod); ok {
			set["status.phase"], set["spec.nodeName"], set["spec.schedulerName"] = string(pod.Status.Phase), pod.Spec.NodeName, pod.Spec.SchedulerName
		}
		return selector.Matches(set)
	}
	return nil
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+h.token {
		h.fail(w, r, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	if r.URL.Path == metricsPath {
		h.calls.write(w)
		return
	}
	if h.serveDiscovery(w, r) {
		return
	}
	q, c, err := h.parse(r)
	if c != nil {
		h.calls.note(r, q)
	}
	switch {
	case err != nil:
		h.fail(w, r, err)
	case c == nil:
		http.Error(w, "404 page not found", http.StatusNotFound)
	case q.name == "" && r.Method == http.MethodGet && q.watch:
		h.serveWatch(w, r, c, q)
	case q.name == "" && r.Method == http.MethodGet:
		h.serveList(w, r, c, q)
	default:
		h.serveObject(w, r, c, q)
	}
}

// serveObject answers requests about one object.
func (h *handler) serveObject(w http.ResponseWriter, r *http.Request, c *collection, q *query) {
	key := types.NamespacedName{Namespace: q.namespace, Name: q.name}
	code := http.StatusOK
	var s *stored
	var err error
	switch pod := q.resource == "pods"; {
	case pod && q.sub == "binding" && r.Method == http.MethodPost:
		h.serveBinding(w, r, c, key)
		return
	case pod && q.sub == "status" && r.Method == http.MethodPatch:
		s, err = h.patchStatus(r, c, key)
	case c.custom() && (q.sub == "" || q.sub == fieldStatus) && (r.Method == http.MethodPut || r.Method == http.MethodPatch):
		s, err = h.changeDocument(r, c, key, q.sub)
	case q.sub != "":
		err = apierrors.NewNotFound(c.name, q.name+"/"+q.sub)
	case r.Method == http.MethodGet:
		s, err = c.get(key)
	case r.Method == http.MethodPost && q.name == "":
		code = http.StatusCreated
		s, err = h.create(r, c, q.namespace)
	case r.Method == http.MethodPut:
		s, err = h.update(r, c, key)
	case r.Method == http.MethodDelete:
		s, err = h.remove(r, c, key)
	default:
		err = apierrors.NewMethodNotSupported(c.name, strings.ToLower(r.Method))
	}
	if err != nil {
		h.fail(w, r, err)
		return
	}
	if d, ok := s.object.(*document); ok {
		h.answerDocument(w, r, c, code, d, s.encoded)
		return
	}
	h.answer(w, r, code, s.encoded)
}

// answerDocument writes an object of a custom resource: JSON, whatever the client would rather have.
func (h *handler) answerDocument(w http.ResponseWriter, r *http.Request, c *collection, code int, d *document, encoded []byte) {
	var err error
	switch {
	case r.Method == http.MethodDelete:
		encoded, err = c.removed(d)
	case strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"):
		encoded, err = metadataOf(d)
	}
	if err != nil {
		h.fail(w, r, apierrors.NewInternalError(err))
		return
	}
	write(w, code, runtime.ContentTypeJSON, encoded)
}

// decode reads an object of the collection's kind.
func (h *handler) decode(r *http.Request, into runtime.Object) error {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err == nil && len(body) > 0 {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, into)
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

func (h *handler) read(r *http.Request, c *collection) (object, error) {
	if c.custom() {
		body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return parseDocument(body, c.kind)
	}
	o, err := c.form.empty(c.kind)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return o, h.decode(r, o)
}

func (h *handler) create(r *http.Request, c *collection, namespace string) (*stored, error) {
	o, err := h.read(r, c)
	if err != nil {
		return nil, err
	}
	if namespace != "" {
		if o.GetNamespace() != "" && o.GetNamespace() != namespace {
			return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
		}
		o.SetNamespace(namespace)
		if _, err := h.store.collections["namespaces"].get(types.NamespacedName{Name: namespace}); err != nil {
			return nil, err
		}
	}
	if o.GetResourceVersion() != "" {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{ // as odd as the real one
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "resourceVersion should not be set on objects to be created",
		}}
	}
	if pod, ok := o.(*corev1.Pod); ok {
		preparePod(pod)
	}
	if d, ok := o.(*document); ok {
		return c.createDocument(d)
	}
	return c.create(o)
}

// update replaces an object. Of pods the real one takes next to no change, and nobody here asks for one.
func (h *handler) update(r *http.Request, c *collection, key types.NamespacedName) (*stored, error) {
	if c.kind.Kind == "Pod" {
		return nil, apierrors.NewMethodNotSupported(c.name, "put")
	}
	o, err := h.read(r, c)
	if err != nil {
		return nil, err
	}
	o.SetNamespace(key.Namespace)
	if o.GetName() != key.Name {
		return nil, apierrors.NewBadRequest("the name of the object does not match the name on the URL")
	}
	return c.update(o)
}

func (h *handler) serveList(w http.ResponseWriter, r *http.Request, c *collection, q *query) {
	items, version := c.list(q.namespace, q.selected)
	body, err := c.form.list(c.kind, items, version)
	if err != nil {
		h.fail(w, r, apierrors.NewInternalError(err))
		return
	}
	if c.custom() {
		write(w, http.StatusOK, c.form.mediaType(), body)
		return
	}
	h.answer(w, r, http.StatusOK, body)
}

func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := apierrors.NewInternalError(err).Status()
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
	}
	body, err := envelope(statusKind, &status)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h.answer(w, r, int(status.Code), body)
}

// answer writes an encoded object, as JSON for who takes nothing else.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, code int, encoded []byte) {
	accept, kind := r.Header.Get("Accept"), runtime.ContentTypeProtobuf
	if accept != "" && accept != "*/*" && !strings.Contains(accept, kind) {
		var err error
		if kind, encoded, err = asJSON(encoded); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	write(w, code, kind, encoded)
}

func write(w http.ResponseWriter, code int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client went away
}

func asJSON(encoded []byte) (kind string, out []byte, err error) {
	o, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(encoded, nil, nil)
	if err != nil {
		return "", nil, err
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return "", nil, errNoObject
	}
	version := gvk.GroupVersion()
	if gvk.Kind == statusKind.Kind {
		version = metav1.SchemeGroupVersion
	}
	out, err = runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, version), o)
	return runtime.ContentTypeJSON, out, err
}
