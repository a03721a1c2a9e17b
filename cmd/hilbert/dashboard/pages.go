package dashboard

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cmd/hilbert/render"
	"hilbert.dev/hilbert/schedule/inspect"
)

// page is a kind of page.
type page struct {
	path, name string // name: of the entry in the menu; empty: it has none
	body       string // the template
	alone      bool   // it needs no state of the cluster
	show       func(r *http.Request, source Source, c *Cluster) (any, error)
}

var pages = []page{
	{path: "/{$}", name: "Cluster", body: "cluster", show: func(*http.Request, Source, *Cluster) (any, error) { return nil, nil }},
	{path: "/nodes", name: "Nodes", body: "nodes", show: showNodes},
	{path: "/nodes/{node}", body: "node", show: showNode},
	{path: "/queues", name: "Queues", body: "queues", show: func(*http.Request, Source, *Cluster) (any, error) { return nil, nil }},
	{path: "/waiting", name: "Waiting", body: "waiting", show: showWaiting},
	{path: "/evictions", name: "Evictions", body: "evictions", show: showEvictions},
	{path: "/pods/{namespace}/{name}", body: "text", alone: true, show: showPod},
	{path: "/units/{namespace}/{name}", body: "text", alone: true, show: showUnit},
}

// missingError is about something that is not there.
type missingError struct{ what string }

func (e *missingError) Error() string { return e.what }

// nodesShown is the map of the nodes, and the first of them in a table.
type nodesShown struct {
	By      Measure
	Query   string
	Measure []Measure
	Map     template.HTML
	Listed  []Node
	Matched int
}

// maxListed bounds the nodes in the table; the map has all of them.
const maxListed = 200

// showNodes orders the table by what is asked for, the fullest first.
func showNodes(r *http.Request, _ Source, c *Cluster) (any, error) {
	v := nodesShown{By: measureNamed(r.URL.Query().Get("by")), Query: r.URL.Query().Get("q"), Measure: measures}
	var matched []Node
	for i := range c.Nodes {
		if strings.Contains(c.Nodes[i].Name, v.Query) {
			matched = append(matched, c.Nodes[i])
		}
	}
	v.Matched, v.Map = len(matched), drawMap(matched, v.By)
	slices.SortStableFunc(matched, func(a, b Node) int {
		x, _ := v.By.Of(&a)
		y, _ := v.By.Of(&b)
		return cmp.Compare(y, x)
	})
	v.Listed = matched[:min(len(matched), maxListed)]
	return v, nil
}

// nodeShown is one node.
type nodeShown struct {
	*Node

	Pods   []PodOn
	Answer *inspect.NodeAnswer
	Bars   template.HTML
}

func showNode(r *http.Request, _ Source, c *Cluster) (any, error) {
	name := r.PathValue("node")
	n := c.Node(name)
	if n == nil {
		return nil, &missingError{fmt.Sprintf("there is no node %q in this state", name)}
	}
	answer, err := c.dump.ExplainNodeIn(c.store, name)
	if err != nil {
		return nil, err
	}
	return nodeShown{Node: n, Pods: c.PodsOn(name), Answer: answer, Bars: drawNode(n)}, nil
}

// waitingShown are the pods that wait in a state, or in any.
type waitingShown struct {
	State  inspect.WaitingState
	States []inspect.WaitingState
	Pods   []inspect.Waiting
}

func showWaiting(r *http.Request, _ Source, c *Cluster) (any, error) {
	v := waitingShown{State: inspect.WaitingState(r.URL.Query().Get("state")), States: inspect.WaitingStates}
	for _, w := range c.Waiting {
		if v.State == "" || w.State == v.State {
			v.Pods = append(v.Pods, w)
		}
	}
	return v, nil
}

func showEvictions(_ *http.Request, _ Source, c *Cluster) (any, error) { return c.Evictions(), nil }

// textShown is what hilbert explain prints.
type textShown struct{ Title, Text, Command string }

func showPod(r *http.Request, source Source, _ *Cluster) (any, error) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	a, err := source.Pod(r.Context(), namespace, name)
	if missing := (*inspect.NoPod)(nil); errors.As(err, &missing) {
		return nil, &missingError{err.Error()}
	}
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = render.Pod(&b, a)
	return textShown{"Pod " + namespace + "/" + name, b.String(), "hilbert explain pod " + namespace + "/" + name}, err
}

func showUnit(r *http.Request, source Source, _ *Cluster) (any, error) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	a, err := source.Unit(r.Context(), namespace, name)
	if missing := (*inspect.NoUnit)(nil); errors.As(err, &missing) {
		return nil, &missingError{err.Error()}
	}
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = render.Unit(&b, a)
	return textShown{"Gang " + namespace + "/" + name, b.String(), "hilbert explain unit " + namespace + "/" + name}, err
}

// write renders a page into the frame.
func (v *view) write(w io.Writer) error { return templates.ExecuteTemplate(w, "frame", v) }
