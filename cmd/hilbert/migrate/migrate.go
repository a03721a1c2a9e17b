package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hilbert.dev/hilbert/api/spec"
)

// PodGroupAPI is the kind of PodGroup that a cluster serves.
type PodGroupAPI string

const (
	// UpstreamPodGroups are Kubernetes' own, of scheduling.k8s.io/v1beta1; pods name theirs in spec.schedulingGroup.
	UpstreamPodGroups PodGroupAPI = "scheduling.k8s.io"
	// SIGPodGroups are those of scheduling.x-k8s.io/v1alpha1; pods name theirs in a label.
	SIGPodGroups PodGroupAPI = "scheduling.x-k8s.io"
)

// Options say what is to be written.
type Options struct {
	// SchedulerName of the pods; "" means spec.DefaultSchedulerName.
	SchedulerName string
	// PodGroups; "" means UpstreamPodGroups.
	PodGroups PodGroupAPI
	// GPUMemoryMiB is the memory of one GPU of the cluster, for words that give a share of a GPU by memory alone. 0: not known.
	GPUMemoryMiB int64
}

// Result is what became of a manifest.
type Result struct {
	// Manifest is the stream of documents; empty if a word is Unknown.
	Manifest []byte `json:"-"`
	// Findings are in the order of the input.
	Findings []Finding `json:"findings"`
}

// ErrUnknownWords is returned with the findings that name the words.
var ErrUnknownWords = errors.New("some words are not known")

// Run rewrites a stream of YAML or JSON documents. It fails on what is no YAML, with ErrUnknownWords, and on wrong options; the findings
// are returned with ErrUnknownWords too.
func Run(input []byte, o Options) (*Result, error) {
	if o.SchedulerName == "" {
		o.SchedulerName = spec.DefaultSchedulerName
	}
	switch o.PodGroups {
	case "":
		o.PodGroups = UpstreamPodGroups
	case UpstreamPodGroups, SIGPodGroups:
	default:
		return nil, fmt.Errorf("PodGroups of %q: write %s or %s", o.PodGroups, UpstreamPodGroups, SIGPodGroups)
	}
	if o.GPUMemoryMiB < 0 {
		return nil, fmt.Errorf("a GPU's memory of %d MiB: write a positive number, or leave it out", o.GPUMemoryMiB)
	}
	documents, err := decode(input)
	if err != nil {
		return nil, err
	}
	r := &run{options: o, gangs: make(map[gangKey]*gang), queues: make(map[string]string)}
	for _, d := range documents {
		r.collectNamespaces(d)
	}
	for _, d := range documents {
		r.document(d)
	}
	r.labelNamespaces()
	slices.SortStableFunc(r.findings, compare)
	result := &Result{Findings: r.findings}
	if result.Count(Unknown) > 0 {
		return result, ErrUnknownWords
	}
	result.Manifest, err = r.encode()
	return result, err
}

// decode splits the input.
func decode(input []byte) ([]*yaml.Node, error) {
	var out []*yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(input))
	for {
		var n yaml.Node
		err := decoder.Decode(&n)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read document %d of the manifest: %w", len(out)+1, err)
		}
		if n.Kind == yaml.DocumentNode && len(n.Content) == 1 && n.Content[0].Kind == yaml.MappingNode {
			out = append(out, &n)
			continue
		}
		if n.Kind == yaml.DocumentNode && len(n.Content) == 1 && n.Content[0].Tag == "!!null" {
			continue // an empty document, or one of comments
		}
		return nil, fmt.Errorf("read document %d of the manifest: line %d: it is no object; write apiVersion, kind and metadata", len(out)+1, n.Line)
	}
}

// run is one manifest on its way.
type run struct {
	options    Options
	findings   []Finding
	out        []*yaml.Node
	gangs      map[gangKey]*gang
	gangOrder  []gangKey
	namespaces map[string]object
	queues     map[string]string // by namespace: the queue that its pods name
	queueOrder []queueOf
	asked      *vocabulary // where words are noted that a system's function asks for; nil: nowhere
}

// queueOf is a namespace whose pods name a queue, and where they do first.
type queueOf struct {
	namespace string
	at        Finding
}

// subject is the object that is rewritten.
type subject struct {
	object

	kind, apiVersion, namespace, name string
}

// String names it in findings.
func (s subject) String() string {
	out := s.kind
	if s.name != "" {
		out += " " + strings.TrimPrefix(s.namespace+"/"+s.name, "/")
	}
	return out
}

func subjectOf(o object) subject {
	s := subject{object: o}
	s.kind, _ = o.text("kind")
	s.apiVersion, _ = o.text("apiVersion")
	meta := o.at("metadata")
	s.namespace, _ = meta.text("namespace")
	s.name, _ = meta.text("name")
	if s.name == "" {
		s.name, _ = meta.text("generateName")
	}
	return s
}

// collectNamespaces remembers the Namespaces of the manifest, in which queues can be written.
func (r *run) collectNamespaces(d *yaml.Node) {
	if r.namespaces == nil {
		r.namespaces = make(map[string]object)
	}
	for _, o := range items(object{d.Content[0]}) {
		if s := subjectOf(o); s.kind == "Namespace" && s.apiVersion == "v1" {
			r.namespaces[s.name] = o
		}
	}
}

// items are the objects of a List, or the object itself.
func items(o object) []object {
	if kind, _ := o.text("kind"); kind == "List" {
		return o.list("items")
	}
	return []object{o}
}

// document rewrites one document.
func (r *run) document(d *yaml.Node) {
	root := object{d.Content[0]}
	kind, _ := root.text("kind")
	if kind != "List" {
		if more, replaced := r.object(root); replaced {
			r.out = append(r.out, more...)
		} else {
			r.out = append(r.out, d)
		}
		return
	}
	var list []*yaml.Node
	for _, o := range root.list("items") {
		if more, replaced := r.object(o); replaced {
			list = append(list, more...)
		} else {
			list = append(list, o.node)
		}
	}
	root.put("items", &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: list})
	r.out = append(r.out, d)
}

// object rewrites one object in place, or says by which it is replaced.
func (r *run) object(o object) (instead []*yaml.Node, replaced bool) {
	s := subjectOf(o)
	for i := range systems() {
		sys := &systems()[i]
		if !slices.Contains(sys.groups, group(s.apiVersion)) {
			continue
		}
		rewrite, known := sys.kinds[s.kind]
		if !known {
			r.add(Finding{
				Outcome: Unknown, Object: s.String(), Line: o.line("kind"), System: sys.name, Word: "kind " + s.kind,
				Message: "Hilbert has no such kind; take it out of the manifest, and see docs/migrate/" + sys.name + ".md",
			})
			return nil, false
		}
		return rewrite(r, s)
	}
	for _, t := range templates(s) {
		r.pod(s, t)
	}
	return nil, false
}

func (r *run) add(f Finding) { r.findings = append(r.findings, f) }

// encode writes all documents, and the PodGroups that pods spoke of and nobody has written. There are comments that the library does not write where it has
// read them, so that nobody can read the rest: then they are left out.
func (r *run) encode() ([]byte, error) {
	documents := append(r.out, r.podGroups()...)
	text, err := write(documents)
	if err != nil {
		return nil, err
	}
	if _, err := decode(text); err == nil {
		return text, nil
	}
	for _, d := range documents {
		dropComments(d)
	}
	return write(documents)
}

func write(documents []*yaml.Node) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := yaml.NewEncoder(&buffer)
	encoder.SetIndent(2)
	for _, d := range documents {
		if err := encoder.Encode(d); err != nil {
			return nil, fmt.Errorf("write the manifest: %w", err)
		}
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	return buffer.Bytes(), nil
}

func dropComments(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	for _, child := range n.Content {
		dropComments(child)
	}
}
