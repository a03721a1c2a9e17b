package visibility

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Failure is an answer that is none, as Kubernetes' clients know it.
type Failure struct{ status metav1.Status }

// Fail makes a Failure.
func Fail(code int, reason metav1.StatusReason, message string) *Failure {
	return &Failure{metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Message: message, Reason: reason, Code: int32(code),
	}}
}

// Later is the Failure of what may succeed in some seconds.
func Later(code int, reason metav1.StatusReason, message string) *Failure {
	f := Fail(code, reason, message)
	f.status.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return f
}

// retryAfter is how many seconds clients are told to wait.
const retryAfter = 2

func (f *Failure) Error() string { return f.status.Message }

// fail answers with an error. What is no Failure is not told to strangers.
func fail(w http.ResponseWriter, err error) {
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		f = Fail(http.StatusInternalServerError, metav1.StatusReasonInternalError, "hilbertd could not answer; its log says why")
	}
	if f.status.Details != nil {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.status.Details.RetryAfterSeconds)))
	}
	WriteJSON(w, int(f.status.Code), f.status)
}

// WriteJSON answers with an object.
func WriteJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client went away
}

// header is what every object of Kubernetes begins with.
type header struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata `json:"metadata"`
}

type metadata struct {
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

// WriteObject writes the answer to a Question as an object of its kind: the fields of report, which is a struct, after those that every object has.
func WriteObject(w io.Writer, q *Question, report any) error {
	kind := ""
	for i := range resources {
		if resources[i].Name == q.Resource {
			kind = resources[i].Kind
		}
	}
	object, err := join(header{metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: kind}, metadata{q.Name, q.Namespace}}, report)
	if err != nil {
		return err
	}
	if q.Name == "" {
		object, err = encode(struct {
			header
			Items []json.RawMessage `json:"items"`
		}{header{metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: kind + "List"}, metadata{}}, []json.RawMessage{object}})
	}
	if err != nil {
		return err
	}
	_, err = w.Write(object)
	return err
}

// ReadObject reads what WriteObject wrote into a report.
func ReadObject(r io.Reader, q *Question, report any) error {
	decoder := json.NewDecoder(r)
	if q.Name != "" {
		return decoder.Decode(report)
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := decoder.Decode(&list); err != nil {
		return err
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("a list of %d reports, want one", len(list.Items))
	}
	return json.Unmarshal(list.Items[0], report)
}

// join makes one JSON object of two.
func join(first, second any) ([]byte, error) {
	a, err := encode(first)
	if err != nil {
		return nil, err
	}
	b, err := encode(second)
	if err != nil {
		return nil, err
	}
	a, b = bytes.TrimSuffix(a, []byte("\n}\n")), bytes.TrimPrefix(b, []byte("{"))
	if len(bytes.TrimSpace(b)) > 1 { // it has fields
		a = append(a, ',')
	}
	return append(a, b...), nil
}

func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return out.Bytes(), err
}
