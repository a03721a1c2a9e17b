package requests

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/control/request"
	"hilbert.dev/hilbert/kube/lease"
)

// answer is what an API server says to one call; without a code it hangs up.
type answer struct {
	code   int
	reason metav1.StatusReason
	about  string // the kind in the details
}

// answering is a Writer whose calls are answered one after the other, and what it sent.
func answering(t *testing.T, answers ...answer) (*Writer, *[]string) {
	t.Helper()
	sent := &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a := answers[min(len(*sent), len(answers)-1)]
		*sent = append(*sent, r.Method+" "+r.URL.Path+" "+string(body))
		if a.code == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.code)
		s := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: int32(a.code), Reason: a.reason, Message: "no"}
		if a.about != "" {
			s.Details = &metav1.StatusDetails{Kind: a.about}
		}
		_ = json.NewEncoder(w).Encode(&s)
	}))
	t.Cleanup(server.Close)
	fence := lease.NewFence(time.Hour, time.Minute)
	fence.Renewed(time.Now())
	watch := emptyWatch(slog.New(slog.DiscardHandler))
	watch.addRequest(asks(t))
	w, err := NewWriter(&rest.Config{Host: server.URL}, fence, watch, "hilbert", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w, sent
}

func words(a request.Action) *request.Action {
	a.Request, a.UID = request.Key{Namespace: "ns", Name: "words"}, "u1"
	return &a
}

// The PodGroup of a gang is made in the first API that there is. Only that an API is absent leads to the next one: whatever else is answered, a second PodGroup would part the gang.
func TestGather(t *testing.T) {
	absent, exists := answer{code: http.StatusNotFound}, answer{http.StatusConflict, metav1.StatusReasonAlreadyExists, ""}
	for name, c := range map[string]struct {
		answers []answer
		result  request.Result
		sent    int
		fails   bool
	}{
		"made":                             {[]answer{{code: http.StatusCreated}}, request.Done, 1, false},
		"there already":                    {[]answer{exists}, request.Exists, 1, false},
		"made in the second":               {[]answer{absent, {code: http.StatusCreated}}, request.Done, 2, false},
		"there already in the second":      {[]answer{absent, exists}, request.Exists, 2, false},
		"there is none":                    {[]answer{absent, absent}, request.Refused, 2, true},
		"the namespace is gone":            {[]answer{{http.StatusNotFound, metav1.StatusReasonNotFound, "namespaces"}}, request.Refused, 1, true},
		"forbidden":                        {[]answer{{http.StatusForbidden, metav1.StatusReasonForbidden, ""}}, request.Refused, 1, true},
		"a conflict with something else":   {[]answer{{http.StatusConflict, metav1.StatusReasonConflict, ""}}, request.Refused, 1, true},
		"the API server is overloaded":     {[]answer{{code: http.StatusTooManyRequests}}, request.Unknown, 1, true},
		"its token is renewed":             {[]answer{{code: http.StatusUnauthorized}}, request.Unknown, 1, true},
		"nobody knows what became of it":   {[]answer{{code: http.StatusInternalServerError}}, request.Unknown, 1, true},
		"no answer":                        {[]answer{{}}, request.Unknown, 1, true},
		"nor of the second, and no answer": {[]answer{absent, {}}, request.Unknown, 2, true},
	} {
		w, sent := answering(t, c.answers...)
		o := w.do(t.Context(), words(request.Action{Gather: &request.Gather{Members: 3}}))
		if o.what != "gather" || o.result != c.result || (o.err != nil) != c.fails || len(*sent) != c.sent {
			t.Errorf("%s: %+v after %d calls", name, o, len(*sent))
		}
		if says := strings.Contains(o.message, "enable them, or ask piecemeal"); says != (name == "there is none") {
			t.Errorf("%s: it says %q", name, o.message)
		}
		for i, text := range *sent {
			spec := [...]string{`"spec":{"schedulingPolicy":{"gang":{"minCount":3}}}`, `"spec":{"minMember":3}`}[i]
			if !strings.Contains(text, spec) || !strings.Contains(text, `"name":"`+request.GroupOf("words", "u1")+`"`) || !strings.Contains(text, `"uid":"u1","controller":true`) {
				t.Errorf("%s: call %d is %s", name, i, text)
			}
		}
	}
}

// What becomes of a pod that is made or deleted. A deletion names the pod by its UID, and one that waits by its version too: it may have a node by now.
func TestPodAnswers(t *testing.T) {
	exists, conflict := answer{http.StatusConflict, metav1.StatusReasonAlreadyExists, ""}, answer{http.StatusConflict, metav1.StatusReasonConflict, ""}
	create := request.Action{Create: &request.Create{Name: "words-x-0", Ask: "map"}}
	remove, waiting := request.Action{Delete: &request.Delete{Name: "p", UID: "pu"}}, request.Action{Delete: &request.Delete{Name: "p", UID: "pu", Version: "7"}}
	for name, c := range map[string]struct {
		do     request.Action
		answer answer
		result request.Result
		fails  bool
		says   string
	}{
		"made":                       {create, answer{code: http.StatusCreated}, request.Done, false, `"uid":"u1"`},
		"there already":              {create, exists, request.Exists, false, ""},
		"a quota changed meanwhile":  {create, conflict, request.Refused, true, ""},
		"forbidden":                  {create, answer{code: http.StatusForbidden}, request.Refused, true, ""},
		"overloaded":                 {create, answer{code: http.StatusTooManyRequests}, request.Unknown, true, ""},
		"nobody knows":               {create, answer{code: http.StatusBadGateway}, request.Unknown, true, ""},
		"deleted":                    {remove, answer{code: http.StatusOK}, request.Done, false, `"preconditions":{"uid":"pu"}`},
		"deleted while it waits":     {waiting, answer{code: http.StatusOK}, request.Done, false, `"preconditions":{"uid":"pu","resourceVersion":"7"}`},
		"gone":                       {remove, answer{code: http.StatusNotFound}, request.Done, false, ""},
		"another, or it has a node":  {waiting, conflict, request.Refused, false, ""},
		"may not be deleted":         {remove, answer{code: http.StatusForbidden}, request.Refused, true, ""},
		"whether it was, is unknown": {remove, answer{}, request.Unknown, true, ""},
	} {
		w, sent := answering(t, c.answer)
		if o := w.do(t.Context(), words(c.do)); o.result != c.result || (o.err != nil) != c.fails || len(*sent) != 1 || !strings.Contains((*sent)[0], c.says) {
			t.Errorf("%s: %+v, sent %v", name, o, *sent)
		}
	}
	w, sent := answering(t, answer{code: http.StatusCreated})
	if o := w.do(t.Context(), &request.Action{Request: request.Key{Namespace: "ns", Name: "words"}, UID: "before", Create: create.Create}); o.what != "none" || len(*sent) > 0 {
		t.Errorf("a pod for a request that went: %+v, %v", o, *sent)
	}
}
