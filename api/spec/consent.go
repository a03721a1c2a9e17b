package spec

import "fmt"

// Consent is whether a pod may be moved to another node, by its annotations and by who would make another.
type Consent uint8

// What is said.
const (
	ConsentUnsaid     Consent = iota // it may be moved
	ConsentAllowed                   // its owner says so
	ConsentReluctant                 // its owner prefers that it stays: only where its node has to be emptied
	ConsentRefused                   // its owner refuses
	ConsentUnreplaced                // nobody would make another
)

func (c Consent) String() string {
	if names := [...]string{"unsaid", "allowed", "reluctant", "refused", "unreplaced"}; int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("unknown(%d)", uint8(c))
}

// Annotations by which other tools are told whether a pod may be moved.
const (
	// AnnotationEvict on a pod says that it may be moved, whatever its value. The descheduler's.
	AnnotationEvict = "descheduler.alpha.kubernetes.io/evict"
	// AnnotationPreferNoEviction on a pod says that it is moved only where its node has to be emptied, whatever its value. The descheduler's.
	AnnotationPreferNoEviction = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
	// AnnotationSafeToEvict on a pod says "true" if it may be moved, "false" if not. The cluster autoscaler's.
	AnnotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// AnnotationDoNotDisrupt on a pod says "true" if it may not be moved. Karpenter's.
	AnnotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// ConsentOf reads a pod's annotations. controlled: it has a controller, which makes another pod in its place. A refusal wins over everything else.
// The descheduler's annotations count whatever their value, as there; a value of the others that is neither true nor false counts as the careful one.
func ConsentOf(annotations map[string]string, controlled bool) Consent {
	if v, ok := annotations[AnnotationDoNotDisrupt]; ok && v != "false" {
		return ConsentRefused
	}
	safe, said := annotations[AnnotationSafeToEvict]
	if said && safe != "true" {
		return ConsentRefused
	}
	if !controlled {
		return ConsentUnreplaced
	}
	if _, ok := annotations[AnnotationPreferNoEviction]; ok {
		return ConsentReluctant
	}
	if _, ok := annotations[AnnotationEvict]; ok || said {
		return ConsentAllowed
	}
	return ConsentUnsaid
}
