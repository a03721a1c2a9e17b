package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/visibility"
	"hilbert.dev/hilbert/schedule/inspect"
)

// newVisibility serves the aggregated API. Without a certificate of our own, by which kube-apiserver and the other replicas could know this process, it is for
// users of this host only. own is what the process serves with, nil if it has made that itself.
func newVisibility(ctx context.Context, c *apiserver.Connection, own *endpoints.Certificate, leader func() string, log *slog.Logger) (*visibility.Server, error) {
	s := &visibility.Server{Log: log}
	if own == nil {
		return s, nil
	}
	peers, err := visibility.NewPeers(c, func() (*tls.Certificate, error) { return own.Get(nil) }, leader)
	if err != nil {
		return nil, err
	}
	proxy, err := visibility.WatchFrontProxy(ctx, c, log)
	if err != nil {
		return nil, err
	}
	s.Proxy, s.Peers = proxy, peers
	return s, nil
}

// Answer answers a question of the aggregated API: one that was not put to this very process, only if it leads.
func (i *inspector) Answer(ctx context.Context, w io.Writer, q *visibility.Question) error {
	leave, err := i.enter()
	if err != nil {
		return visibility.Later(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, err.Error())
	}
	defer leave()
	dump, err := i.dump(ctx, !q.Here)
	if errors.Is(err, errStuck) || errors.Is(err, errNotListed) {
		return visibility.Later(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, err.Error())
	}
	if err != nil {
		return err
	}
	if q.Resource == visibility.Snapshots {
		if q.Name != visibility.CurrentSnapshot {
			return visibility.Fail(http.StatusNotFound, metav1.StatusReasonNotFound, "there is one snapshot, "+visibility.CurrentSnapshot)
		}
		return dump.Write(w)
	}
	report, err := reportOf(dump, q)
	if isUnknown(err) {
		return visibility.Fail(http.StatusNotFound, metav1.StatusReasonNotFound, err.Error())
	}
	if err != nil {
		return err
	}
	return visibility.WriteObject(w, q, report)
}

// reportOf is what a question asks for.
func reportOf(d *inspect.Dump, q *visibility.Question) (any, error) {
	switch q.Resource {
	case visibility.PodExplanations:
		a, err := d.Explain(q.Namespace, q.Name)
		if err == nil && q.OwnNamesOnly {
			a.OwnNames()
		}
		return a, err
	case visibility.PodGroupExplanations:
		a, err := d.ExplainUnit(q.Namespace, q.Name)
		if err == nil && q.OwnNamesOnly {
			a.OwnNames()
		}
		return a, err
	case visibility.ReservationExplanations:
		a, err := d.ExplainReservation(q.Namespace, q.Name)
		if err == nil && q.OwnNamesOnly {
			a.OwnNames()
		}
		return a, err
	case visibility.NodeExplanations:
		return d.ExplainNode(q.Name)
	case visibility.QueueReports:
		return d.View(inspect.ViewOptions{Limit: q.Limit, Queue: q.Name})
	}
	return nil, fmt.Errorf("nobody answers for %s", q.Resource)
}

// isUnknown reports whether the scheduler does not know what was asked about.
func isUnknown(err error) bool {
	_, noPod := errors.AsType[*inspect.NoPod](err)
	_, noUnit := errors.AsType[*inspect.NoUnit](err)
	_, noNode := errors.AsType[*inspect.NoNode](err)
	_, noQueue := errors.AsType[*inspect.NoQueue](err)
	_, noReservation := errors.AsType[*inspect.NoReservation](err)
	return noPod || noUnit || noNode || noQueue || noReservation
}
