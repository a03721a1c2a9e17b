// Package fairshare says who makes room where namespaces share a table that has a bound, so that no namespace keeps the others out by what it creates.
//
// What always holds: a namespace that has less than its share gets a place, and one that has as many as any other takes none away. So a table that is full and asked again and again does not
// change: places move only as long as two namespaces differ by more than one.
//
// Example: a table of 4,096 is full, 4,095 of it of the namespace a. A second one of b takes a place of a; b gets places until both have 2,048.
//
// It is no queue and no quota: it keeps nothing itself, and whoever keeps the table decides which entry of the namespace goes.
package fairshare

// Yields is the namespace that gives one of its entries up for a new one of a namespace, where held are how many each has and the table is full; false: nobody does, and the new one is
// left out.
func Yields(held map[string]int, namespace string) (from string, ok bool) {
	most := held[namespace] + 1 // whoever has one more would change places with it for ever
	for name, n := range held {
		if n > most || ok && n == most && name < from {
			from, most, ok = name, n, true
		}
	}
	return from, ok
}
