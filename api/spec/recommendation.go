package spec

// Recommended requests.
const (
	// AnnotationRecommendationMode stands on a VerticalPodAutoscaler: what is done with what is recommended, Off, Initial, InPlace or Recreate. Absent: Off.
	AnnotationRecommendationMode = "autoscaling.hilbert.dev/mode"
	// AnnotationGrowthFrom stands on the Reservation of the room that a pod grows into: what the container asked for then. Only the controller writes it.
	AnnotationGrowthFrom = "autoscaling.hilbert.dev/from"
	// AnnotationMayEvict stands on such a Reservation: the UIDs of the pods that may be evicted for it, with commas between them, at most MaxMayEvict. Only the controller
	// writes it, which a policy holds.
	AnnotationMayEvict = "autoscaling.hilbert.dev/may-evict"
	// AnnotationCheckpointOf stands on a ConfigMap with what is known of use: the VerticalPodAutoscaler, as NAMESPACE/NAME. Only the controller writes it.
	AnnotationCheckpointOf = "autoscaling.hilbert.dev/of"
)

// Labels of what the controller makes for recommended requests.
const (
	// LabelGrowth stands on the Reservation of the room that a pod grows into: the pod's UID.
	LabelGrowth = "autoscaling.hilbert.dev/growth"
	// LabelCheckpoint stands on a ConfigMap with what is known of use.
	LabelCheckpoint = "autoscaling.hilbert.dev/checkpoint"
)

// MaxMayEvict is how many pods a Reservation may name in AnnotationMayEvict.
const MaxMayEvict = 64
