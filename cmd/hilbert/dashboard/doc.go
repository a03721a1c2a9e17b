// Package dashboard serves pages about a cluster to a browser on the same machine: what is used, lent and allocated, node by node, queue by queue, and who
// waits for what.
//
// Data flow: Server asks a Source for the scheduler's state now and then, and makes a Cluster of it, which has what all pages show. A browser gets pages that
// are rendered here, and a stream of events that says when there is a newer state; its script then fetches the page again and swaps the content.
//
//	source := dashboard.File(dump)             // or one that asks the API server
//	s := dashboard.New(source, dashboard.Options{Every: 10 * time.Second})
//	go s.Follow(ctx)
//	http.Serve(listener, s)                    // people open s.Address("127.0.0.1:8080")
//
// Invariants: a page loads nothing from elsewhere, and its policy forbids it. The pages are made with the rights of the user who started the server, so that only
// browsers with the token of the address get them. Requests that name another host than this machine are refused. The history and the number of
// streams are bounded. A state that could not be read is said so on every page; the last good one is shown with its age.
//
// It decides nothing, and changes nothing in the cluster.
package dashboard
