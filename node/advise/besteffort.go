package advise

// BestEffort pods that name no level run in the shared pools, and are entitled to next to nothing there: the kubelet gives all of them together the least weight.
// So they may use what is left of the shared CPUs, but neither that they wait nor what they use beyond BestEffortShare takes CPUs back from reclaimed pods.
// Otherwise one of them with many threads would recall all that is lent. Where it is not known what they use or wait, nothing is taken off.

// surplus is what BestEffort pods use and wait beyond what they are entitled to, as shares of what all shared pods do.
type surplus struct{ use, delay float64 }

// bestEffort finds the surplus of the node. Where its pods use and wait is not known: it is where the shared pools do.
func (t *tick) bestEffort() {
	var use, delay, allUse, allDelay float64
	for i := range t.o.Services {
		s := &t.o.Services[i]
		if !s.BestEffort || s.Pool == "" {
			continue
		}
		used, _ := amount(s.CPUUse, most)
		waits, _ := amount(s.RunDelay, most)
		use, delay = use+used, delay+waits
	}
	if use == 0 && delay == 0 {
		return
	}
	for i := range t.o.NUMANodes {
		z := &t.o.NUMANodes[i]
		used, _ := amount(z.SharedUse, float64(divisible(z)))
		waits, _ := amount(z.SharedDelay, most)
		allUse, allDelay = allUse+used, allDelay+waits
	}
	part := func(of, all float64) float64 {
		if all <= 0 {
			return 0
		}
		return max(0, min(of/all, 1))
	}
	t.surplus = surplus{use: part(use-t.p.BestEffortShare*float64(t.divisible), allUse), delay: part(delay, allDelay)}
}
