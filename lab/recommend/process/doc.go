// Package process runs recommendations against a real API server: VerticalPodAutoscalers under their own definition, a scheduler and a controller of Hilbert with the
// permissions of deploy/, and stand-ins for the kubelet and for metrics-server.
//
// The definition is that of VPA's module, and statuses are read with its types: what the API server would prune or VPA would not read fails here.
//
// There is no code but tests.
package process
