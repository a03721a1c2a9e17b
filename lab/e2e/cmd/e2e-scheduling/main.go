// Command e2e-scheduling runs upstream's [sig-scheduling] specs, and links nothing else: some hundred packages beside the lab's, which is what a check of
// every change can afford to build. The flags are those of upstream's e2e.test, and always the whole list runs that they choose. It is not how a person runs them:
// "make e2e-upstream" starts a lab for it, and compares two schedulers.
package main

import (
	_ "k8s.io/kubernetes/test/e2e/scheduling" // the specs

	"hilbert.dev/hilbert/lab/e2e"
)

func main() { e2e.Main() }
