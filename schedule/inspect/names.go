package inspect

import "strings"

// othersUnit stands for a unit whose name is left out.
const othersUnit = "a unit of another namespace"

// OwnNames leaves out what names pods of other namespaces, for readers who may see no other.
func (a *Answer) OwnNames() {
	a.Victims = nil
	a.Explanation.OwnNames(a.Namespace)
}

// OwnNames leaves out what names pods of other namespaces, for readers who may see no other.
func (a *ReservationAnswer) OwnNames() {
	if a.First != nil {
		a.First.OwnNames()
	}
}

// OwnNames leaves out what names pods or units of other namespaces, for readers who may see no other.
func (a *UnitAnswer) OwnNames() {
	for i := range a.Changes {
		if gone := &a.Changes[i].Gone; *gone != "" && !strings.HasPrefix(*gone, a.Namespace+"/") {
			*gone = othersUnit
		}
	}
}
