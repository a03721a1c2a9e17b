package visibility

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/internal/version"
)

// ErrFollowing is the error of Answers in a process that does not lead.
var ErrFollowing = errors.New("another process leads")

// Answers has the answers, or says who has not. Answer writes the answer to a question. Its errors are ErrFollowing, a *Failure, or what the log should
// have; none comes after the first byte was written.
type Answers interface {
	Answer(ctx context.Context, w io.Writer, q *Question) error
}

// Rights says who users are and what they may; Reviewer does.
type Rights interface {
	Identify(ctx context.Context, bearer string) (authenticationv1.UserInfo, error)
	May(ctx context.Context, user *authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) error
}

// Server serves the group to kube-apiserver's proxy, to other replicas, and to users of this host, who bring their tokens.
type Server struct {
	// Proxy and Peers are nil where this process has no certificate by which they could know it.
	Proxy   *FrontProxy
	Peers   *Peers
	Rights  Rights
	Answers Answers
	Log     *slog.Logger
}

// Register makes a mux serve the group. Whatever it serves of it, it serves without a leader, if only to say that there is none.
func (s *Server) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /apis", constant(groups()))
	mux.HandleFunc("GET /apis/"+GroupVersion.Group, constant(group()))
	mux.HandleFunc("GET "+root(), constant(metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: GroupVersion.String(), APIResources: resources,
	}))
	mux.HandleFunc(root()+"/", s.serve)
}

// Software is the name of hilbertd in the Server header of discovery, before a slash and its version.
const Software = "hilbertd"

// constant serves what never changes, to everybody: kube-apiserver asks for it to learn whether this process lives. The Server header says which build
// answers, as kube-apiserver's /version does to everybody.
func constant(v any) http.HandlerFunc {
	server := Software + "/" + version.Get().Version
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server", server)
		WriteJSON(w, http.StatusOK, v)
	}
}

func groups() metav1.APIGroupList {
	return metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{group()}}
}

func group() metav1.APIGroup {
	version := metav1.GroupVersionForDiscovery{GroupVersion: GroupVersion.String(), Version: GroupVersion.Version}
	return metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: GroupVersion.Group,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
}

// serve answers one question.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	peer := s.Peers != nil && s.Peers.IsPeer(r)
	q, err := s.admit(r, peer)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	out := &started{w: w}
	err = s.Answers.Answer(r.Context(), out, &q)
	switch {
	case errors.Is(err, ErrFollowing) && peer:
		s.refuse(w, r, unavailable("this replica of hilbertd does not lead any more"))
	case errors.Is(err, ErrFollowing):
		s.relay(w, r, &q)
	case err != nil && out.begun: // the client went away
		s.Log.Debug("cannot answer", "path", r.URL.Path, "err", err)
		panic(http.ErrAbortHandler) // or half an answer would look whole
	case err != nil:
		s.refuse(w, r, err)
	}
}

// admit reads a question and checks that whoever asks it may.
func (s *Server) admit(r *http.Request, peer bool) (Question, error) {
	if peer { // it has asked who and whether
		q, err := readQuestion(r)
		q.OwnNamesOnly = r.URL.Query().Get(namesParameter) == ownNames
		return q, err
	}
	user, here, err := s.user(r)
	if err != nil {
		return Question{}, err
	}
	q, err := readQuestion(r)
	q.Here = here
	if err != nil {
		return q, err
	}
	if err := s.Rights.May(r.Context(), &user, q.access()); err != nil {
		return q, s.reviewed(err)
	}
	if q.Resource != PodExplanations && q.Resource != PodGroupExplanations {
		return q, nil
	}
	everything := Question{Resource: Snapshots, Name: CurrentSnapshot}
	err = s.Rights.May(r.Context(), &user, everything.access())
	if q.OwnNamesOnly = errors.Is(err, ErrForbidden); q.OwnNamesOnly {
		err = nil
	}
	return q, s.reviewed(err)
}

// reviewed is the error of a review, as the client is to see it.
func (s *Server) reviewed(err error) error { return Reviewed(err, s.Log) }

// Reviewed is the error of Rights, as a client is to see it.
func Reviewed(err error, log *slog.Logger) error {
	if err == nil || errors.Is(err, ErrForbidden) || errors.Is(err, ErrUnauthenticated) || errors.Is(err, ErrTooMany) {
		return err
	}
	log.Debug("cannot review a request", "err", err)
	return unavailable("the API server could not say who you are or what you may")
}

// user is who asks: whose token a user of this host brings, or whom the proxy names. Tokens from elsewhere are not looked at: nobody is to send them here.
func (s *Server) user(r *http.Request) (user authenticationv1.UserInfo, here bool, err error) {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") && FromHere(r) {
		user, err = s.Rights.Identify(r.Context(), strings.TrimSpace(token))
		return user, true, s.reviewed(err)
	}
	if s.Proxy == nil {
		return user, false, fmt.Errorf("%w: ask by a bearer token, from this host: without server.tlsCertFile hilbertd knows no proxy of the API server", ErrUnauthenticated)
	}
	user, err = s.Proxy.User(r, time.Now())
	return user, false, err
}

// FromHere reports whether a request comes from this host, or through kubectl port-forward, which authenticates.
func FromHere(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	address, parseErr := netip.ParseAddr(host)
	return err == nil && parseErr == nil && address.Unmap().IsLoopback()
}

// refuse answers with an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	Refuse(w, err, func(err error) { s.Log.Error("cannot answer", "path", r.URL.Path, "err", err) })
}

// Refuse answers with an error: a *Failure, or one of Rights. Of any other the client is told nothing, and log all.
func Refuse(w http.ResponseWriter, err error, log func(error)) {
	failure, isFailure := errors.AsType[*Failure](err)
	switch {
	case isFailure:
		err = failure
	case errors.Is(err, ErrForbidden):
		err = Fail(http.StatusForbidden, metav1.StatusReasonForbidden, err.Error())
	case errors.Is(err, ErrUnauthenticated):
		err = Fail(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, err.Error())
	case errors.Is(err, ErrTooMany):
		err = Later(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, err.Error())
	default:
		log(err)
	}
	fail(w, err)
}

// relay has the leader answer.
func (s *Server) relay(w http.ResponseWriter, r *http.Request, q *Question) {
	response, err := s.Peers.Ask(r.Context(), q)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if value := response.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(response.StatusCode)
	if _, err := io.Copy(w, response.Body); err != nil {
		s.Log.Debug("cannot pass an answer on", "path", r.URL.Path, "err", err)
		panic(http.ErrAbortHandler) // or half an answer would look whole
	}
}

// started remembers whether an answer has begun.
type started struct {
	w     http.ResponseWriter
	begun bool
}

// Write implements io.Writer.
func (s *started) Write(data []byte) (int, error) {
	if !s.begun {
		s.w.Header().Set("Content-Type", "application/json")
		s.begun = true
	}
	return s.w.Write(data)
}
