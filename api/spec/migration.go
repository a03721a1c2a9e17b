package spec

// Words of the policies that rewrite pods of other systems while they are created (docs/migrate/live.md).
const (
	// LabelMigrate of a namespace with the value "false" leaves its pods alone.
	LabelMigrate = "hilbert.dev/migrate"
	// AnnotationMigratedFrom is written on pods that were rewritten: the system whose words they had. Nothing of Hilbert reads it but those policies.
	AnnotationMigratedFrom = "hilbert.dev/migrated-from"
)
