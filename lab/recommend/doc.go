// Package recommend holds control/recommend to the library of the Vertical Pod Autoscaler.
//
// The product may not link that library: it knows Kubernetes' types, and its packages reach a server. Here the same samples go to both, and the answers
// have to be the same: every percentile of decaying histograms, after additions, subtractions and gaps of any length.
//
// There is no code but tests.
package recommend
