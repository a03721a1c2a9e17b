package kube

import (
	"log/slog"
	"net/http"

	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1client "k8s.io/client-go/kubernetes/typed/scheduling/v1"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/parse"
)

// sharedClient is the connection to the API server, and the HTTP client that all watches share.
type sharedClient struct {
	connection *apiserver.Connection
	http       *http.Client
}

// reservationFollowers watch Reservations, where the API server has them, and then the PriorityClasses that their templates name.
func reservationFollowers(shared sharedClient, out outlet, parser *parse.Parser, tracked *trackedWatches, log *slog.Logger) [2]*apiserver.Follower {
	book, note := newReservationBook(out, parser), healthOf(log)
	reservations := func(string) (*cache.Reflector, error) {
		client, err := apiserver.NewWrittenClient[v1alpha1.Reservation](shared.connection, shared.http, v1alpha1.GroupVersion.WithKind("Reservation"), v1alpha1.Reservations)
		if err != nil {
			return nil, err
		}
		from := source(client.List, client.Watch, "", note(v1alpha1.Reservations))
		reflector := newReflector(v1alpha1.Reservations, from, &writtenReservation{}, reservationSink{book})
		tracked.track(v1alpha1.Reservations, from, reflector.LastSyncResourceVersion)
		return reflector, nil
	}
	priorities := func(string) (*cache.Reflector, error) {
		client, err := schedulingv1client.NewForConfigAndClient(shared.connection, shared.http)
		if err != nil {
			return nil, err
		}
		classes := client.PriorityClasses()
		return newReflector("priorityclasses", source(classes.List, classes.Watch, "", note("priorityclasses")), &schedulingv1.PriorityClass{}, prioritySink{book}), nil
	}
	return [2]*apiserver.Follower{
		{What: v1alpha1.Reservations + "." + v1alpha1.Group, Log: log, Reflector: reservations, Absent: func() error { return out.send(facts.ReservationsListed{}) }},
		{What: "priorityclasses." + parse.GroupScheduling, Log: log, Reflector: priorities, Absent: func() error { return nil }},
	}
}
