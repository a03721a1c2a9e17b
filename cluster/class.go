package cluster

import "hilbert.dev/hilbert/resource"

// intern returns the class of the requirements. A class whose resources do not fit the table is marked impossible rather than dropped.
func (s *Store) intern(r *Requirements) *Class {
	s.scratch = r.appendKey(s.scratch[:0])
	if class, ok := s.classes[string(s.scratch)]; ok {
		return class
	}
	class := &Class{Requirements: r, ID: s.nextClass, key: string(s.scratch)}
	s.nextClass++
	quantities := append([]resource.Quantity{{Name: resource.NamePods, Amount: 1}}, r.Requests...)
	amounts, err := s.kinds.NewList(quantities)
	if err != nil {
		copied := *r
		copied.Impossible = err.Error()
		class.Requirements = &copied
	}
	class.Amounts = amounts
	s.growKinds()
	s.classes[class.key] = class
	s.idle++
	s.sweepClasses(class)
	return class
}

// Class returns the class of the requirements without a pod, for questions such as "would this fit".
func (s *Store) Class(r *Requirements) *Class { return s.intern(r) }

// reclass makes the pod refer to another class (nil: none). The pod must not be charged with the old one.
func (s *Store) reclass(pod *Pod, class *Class) {
	if pod.Class == class {
		return
	}
	if class != nil {
		if class.pods == 0 {
			s.idle--
		}
		class.pods++
	}
	if old := pod.Class; old != nil {
		old.pods--
		if old.pods == 0 {
			s.idle++
		}
	}
	if class != nil {
		pod.Class = class
	}
}

// sweepClasses forgets idle classes, except one, when too many have gathered.
func (s *Store) sweepClasses(keep *Class) {
	if s.idle <= MaxIdleClasses {
		return
	}
	for key, class := range s.classes {
		if class.pods == 0 && class != keep {
			delete(s.classes, key)
			s.idle--
		}
	}
}
