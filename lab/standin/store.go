package standin

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// maxHistory bounds the changes of one resource that a watch can resume behind. It is far more than a scheduler may lag.
const maxHistory = 200_000

// object is what is kept: every type of the Kubernetes API, and documents of custom resources.
type object interface {
	runtime.Object
	metav1.Object
	Marshal() ([]byte, error)
}

// stored is an object with its encoding. Neither changes.
type stored struct {
	object  object
	encoded []byte // as the collection's form has it
	version int64
}

// store keeps the objects of all resources. One lock guards it: what is slow, the encoding of objects, is done under it only where it must be in order.
type store struct {
	mu          sync.Mutex
	version     int64
	collections map[string]*collection
}

// collection is one resource.
type collection struct {
	*store
	kind schema.GroupVersionKind
	name schema.GroupResource
	form form

	objects map[types.NamespacedName]*stored
	// changes are those after the version oldest; wake is closed at the next one.
	changes []*change
	oldest  int64
	dropped int // changes that were forgotten, so that dropped+i numbers changes[i] for ever
	wake    chan struct{}
}

// newStore keeps the API server's own resources, and custom ones.
func newStore(kinds, custom map[string]schema.GroupVersionKind) *store {
	s := &store{version: 1, collections: make(map[string]*collection)}
	add := func(kinds map[string]schema.GroupVersionKind, f form) {
		for resource, kind := range kinds {
			s.collections[resource] = &collection{
				store: s, kind: kind, name: schema.GroupResource{Group: kind.Group, Resource: resource}, form: f,
				objects: make(map[types.NamespacedName]*stored), wake: make(chan struct{}),
			}
		}
	}
	add(kinds, protobufForm{})
	add(custom, jsonForm{})
	return s
}

// custom reports whether the collection is of a custom resource.
func (c *collection) custom() bool {
	_, is := c.form.(jsonForm)
	return is
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// get answers with the object, or with 404.
func (c *collection) get(key types.NamespacedName) (*stored, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(key)
}

func (c *collection) find(key types.NamespacedName) (*stored, error) {
	if s := c.objects[key]; s != nil {
		return s, nil
	}
	return nil, apierrors.NewNotFound(c.name, key.Name)
}

// create keeps a new object, which nobody may change afterwards.
func (c *collection) create(o object) (*stored, error) {
	o.SetUID(uuid.NewUUID())
	o.SetCreationTimestamp(metav1.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objects[keyOf(o)] != nil {
		return nil, apierrors.NewAlreadyExists(c.name, o.GetName())
	}
	return c.put(nil, o)
}

// change replaces an object by what next makes of it, unless that is the old one. next must not change the old one; an error of it is the answer.
func (c *collection) change(key types.NamespacedName, next func(old object) (object, error)) (*stored, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, err := c.find(key)
	if err != nil {
		return nil, err
	}
	o, err := next(old.object)
	if err != nil {
		return nil, err
	}
	if o == old.object {
		return old, nil
	}
	return c.put(old, o)
}

// update replaces an object of the version that the new one names.
func (c *collection) update(o object) (*stored, error) {
	return c.change(keyOf(o), func(old object) (object, error) {
		if v := o.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
			return nil, apierrors.NewConflict(c.name, o.GetName(), errModified)
		}
		if uid := o.GetUID(); uid != "" && uid != old.GetUID() {
			return nil, apierrors.NewConflict(c.name, o.GetName(), errModified)
		}
		o.SetUID(old.GetUID())
		o.SetCreationTimestamp(old.GetCreationTimestamp())
		return o, nil
	})
}

// errModified is what the real one says of an update from an old version.
var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// remove takes an object away at once, if check has nothing against it.
func (c *collection) remove(key types.NamespacedName, check func(object) error) (*stored, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, err := c.find(key)
	if err != nil {
		return nil, err
	}
	if err := check(old.object); err != nil {
		return nil, err
	}
	last, ok := old.object.DeepCopyObject().(object)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("the copy has another type"))
	}
	c.version++
	last.SetResourceVersion(format(c.version))
	gone, err := c.encode(last)
	if err != nil {
		return nil, err
	}
	delete(c.objects, key)
	c.note(&change{old: old, now: gone, gone: true})
	return gone, nil
}

func (c *collection) put(old *stored, o object) (*stored, error) {
	c.version++
	o.SetResourceVersion(format(c.version))
	s, err := c.encode(o)
	if err != nil {
		return nil, err
	}
	c.objects[keyOf(o)] = s
	c.note(&change{old: old, now: s})
	return s, nil
}

func (c *collection) encode(o object) (*stored, error) {
	encoded, err := c.form.object(c.kind, o)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return &stored{object: o, encoded: encoded, version: c.version}, nil
}

// note appends to the history and wakes the watches.
func (c *collection) note(ch *change) {
	if len(c.changes) >= maxHistory {
		drop := maxHistory / 2
		c.oldest = c.changes[drop-1].now.version
		c.dropped += drop
		c.changes = slices.Clone(c.changes[drop:])
	}
	c.changes = append(c.changes, ch)
	close(c.wake)
	c.wake = make(chan struct{})
}

// list returns the objects of a namespace ("": all) in name order, and the version that the list is of.
func (c *collection) list(namespace string, selected func(object) bool) ([]*stored, int64) {
	c.mu.Lock()
	all, version := slices.Collect(maps.Values(c.objects)), c.version
	c.mu.Unlock()
	all = slices.DeleteFunc(all, func(s *stored) bool {
		return namespace != "" && s.object.GetNamespace() != namespace || !selected(s.object)
	})
	slices.SortFunc(all, func(a, b *stored) int {
		return compareKeys(keyOf(a.object), keyOf(b.object))
	})
	return all, version
}

func format(version int64) string { return strconv.FormatInt(version, 10) }
