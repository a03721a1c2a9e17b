// Package pack places several pods together or not at all: a gang, a job, the members of a unit.
//
// Members are placed one after the other on the snapshot, each as if it were a pod of its own, and taken back if fewer than the unit needs
// find a node. What is asked of the topology decides which nodes are open to them:
//
//   - Required or Uniform: all members in one domain of a label. The domains are weighed by free capacity, and the smallest that holds all
//     members is tried first, so that large holes stay whole.
//   - Preferred: as few domains of the label as it takes; in one, else in few within one domain of the next wider level, and so on.
//   - Spread: the next member always goes to the domain with the fewest.
//   - Subgroups: the same, asked of each subgroup for itself, inside what was chosen for the unit.
//
// Example. Eight members of one GPU each require one rack. Rack r1 has room for 8, r2 for 30, r3 for 5. A Capacity of the members' class (package
// index) has these sums at hand, so choosing looks at three domains and at no node. r1 is the tightest that holds them. Within it a
// DomainScorer gives each member the best node of that rack, by scores that are normalised over the rack.
//
// The sums are exact for members that are alike and have no constraints between them; the first domain then holds. For others they are an upper
// bound, and domains are tried in turn, at most MaxDomainTries a level and maxUnitTries in all. Subgroups that each need one domain are placed one after the other; where
// that leaves some over, they are given other domains, with at most maxSubgroupTries.
//
// ReserveNodes chooses which nodes to keep free for a unit that fits nowhere: as many as would hold it once the pods on them have left.
//
// Invariants: when PlaceUnit fails the snapshot is as it was. The package evicts no pod, and does not know queues.
package pack
