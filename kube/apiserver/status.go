package apiserver

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"
)

// ContentStatus is the media type of what StatusPatch makes.
const ContentStatus = string(types.JSONPatchType)

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// StatusPatch replaces the status of the object with a UID, and of no other that has its name by then.
//
// It is a JSON patch, because the status of a custom resource knows no other precondition: there the API server passes over the UID of an object that is applied or merged, and an object
// that was made anew under the name gets what was meant for the one before.
func StatusPatch(uid types.UID, status any) ([]byte, error) {
	return json.Marshal([]operation{{"test", "/metadata/uid", uid}, {"add", "/status", status}})
}
