package visibility

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is what is served.
var GroupVersion = schema.GroupVersion{Group: "visibility.hilbert.dev", Version: "v1alpha1"}

// The resources.
const (
	PodExplanations         = "podexplanations"
	PodGroupExplanations    = "podgroupexplanations"
	ReservationExplanations = "reservationexplanations"
	NodeExplanations        = "nodeexplanations"
	QueueReports            = "queuereports"
	Snapshots               = "snapshots"
)

// CurrentSnapshot is the name of the one snapshot.
const CurrentSnapshot = "current"

// resources are what discovery lists. A collection that may be listed is one report of everything.
var resources = []metav1.APIResource{
	{Name: PodExplanations, SingularName: "podexplanation", Kind: "PodExplanation", Namespaced: true, Verbs: metav1.Verbs{"get"}},
	{Name: PodGroupExplanations, SingularName: "podgroupexplanation", Kind: "PodGroupExplanation", Namespaced: true, Verbs: metav1.Verbs{"get"}},
	{Name: ReservationExplanations, SingularName: "reservationexplanation", Kind: "ReservationExplanation", Namespaced: true, Verbs: metav1.Verbs{"get"}},
	{Name: NodeExplanations, SingularName: "nodeexplanation", Kind: "NodeExplanation", Verbs: metav1.Verbs{"get"}},
	{Name: QueueReports, SingularName: "queuereport", Kind: "QueueReport", Verbs: metav1.Verbs{"get", "list"}},
	{Name: Snapshots, SingularName: "snapshot", Kind: "Snapshot", Verbs: metav1.Verbs{"get"}},
}

const (
	// DefaultLimit and MaxLimit bound the pods that a QueueReport names.
	DefaultLimit = 500
	MaxLimit     = 100_000
)

// Question is one read of one resource.
type Question struct {
	Resource  string
	Namespace string // of the resources that have one
	Name      string // empty: the list
	Limit     int    // of QueueReports
	// Here: by this process, from what it knows, whether it leads or not.
	Here bool
	// OwnNamesOnly leaves the names of other namespaces' pods out.
	OwnNamesOnly bool
}

// The parameters of a Question's URL. namesParameter is one replica's to another; of others it is not read.
const (
	limitParameter = "limit"
	namesParameter = "names"
	ownNames       = "own"
)

// root is the path of the group's version.
func root() string { return "/apis/" + GroupVersion.String() }

// verb is the verb that RBAC knows.
func (q *Question) verb() string {
	if q.Name == "" {
		return "list"
	}
	return "get"
}

// Path is the path of the Question's URL, and Query the query.
func (q *Question) Path() string {
	elements := []string{root()}
	if q.Namespace != "" {
		elements = append(elements, "namespaces", url.PathEscape(q.Namespace))
	}
	elements = append(elements, q.Resource)
	if q.Name != "" {
		elements = append(elements, url.PathEscape(q.Name))
	}
	return strings.Join(elements, "/")
}

// Query is the query of the Question's URL.
func (q *Question) Query() url.Values {
	query := url.Values{}
	if q.Resource == QueueReports {
		query.Set(limitParameter, strconv.Itoa(q.Limit))
	}
	if q.OwnNamesOnly {
		query.Set(namesParameter, ownNames)
	}
	return query
}

// access is what the API server is asked about.
func (q *Question) access() authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{
		Namespace: q.Namespace, Verb: q.verb(), Group: GroupVersion.Group, Version: GroupVersion.Version, Resource: q.Resource, Name: q.Name,
	}
}

// readQuestion reads a request for a resource; the error is a *Failure.
func readQuestion(r *http.Request) (Question, error) {
	var q Question
	if r.Method != http.MethodGet {
		return q, Fail(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "answers about scheduling can be read only")
	}
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), root()+"/")
	elements := strings.Split(rest, "/")
	for i := range elements {
		plain, err := url.PathUnescape(elements[i])
		if ok = ok && err == nil && len(content.IsPathSegmentName(plain)) == 0 && plain != ""; !ok {
			return q, noSuchPath(r)
		}
		elements[i] = plain
	}
	if len(elements) > 2 && elements[0] == "namespaces" {
		q.Namespace, elements = elements[1], elements[2:]
	}
	q.Resource = elements[0]
	if len(elements) == 2 {
		q.Name = elements[1]
	}
	known := slices.ContainsFunc(resources, func(served metav1.APIResource) bool {
		return served.Name == q.Resource && served.Namespaced == (q.Namespace != "")
	})
	switch {
	case !known || len(elements) > 2:
		return q, noSuchPath(r)
	case q.Name == "" && q.Resource != QueueReports:
		return q, Fail(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, q.Resource+" cannot be listed: name one")
	}
	return q, q.readLimit(r)
}

func (q *Question) readLimit(r *http.Request) error {
	query := r.URL.Query()
	for _, parameter := range []string{"watch", "follow"} {
		if on, err := strconv.ParseBool(query.Get(parameter)); err == nil && on {
			return Fail(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "answers about scheduling cannot be watched")
		}
	}
	if q.Resource != QueueReports {
		return nil
	}
	q.Limit = DefaultLimit
	if text := query.Get(limitParameter); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > MaxLimit {
			return Fail(http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprintf("%s: want a number from 0 to %d", limitParameter, MaxLimit))
		}
		q.Limit = n
	}
	return nil
}

func noSuchPath(r *http.Request) error {
	return Fail(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("there is nothing at %.200q", r.URL.Path))
}
