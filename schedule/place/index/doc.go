// Package index finds the best of all nodes without asking all of them. It is exact: what it answers is what asking every filter and every
// score about every node would answer (rules.Profile.Judge), and tests compare the two.
//
// It rests on three observations. Most decisions change one node, so the order of the others is kept in heaps and follows the snapshot's log:
// a change moves one entry. Workloads are many but sizes are few, so all classes whose pods ask for the same amounts share a ranking. And
// static filters tell few nodes apart: nodes with equal taints, features and values of the labels that some pod selects by are one node class,
// and a class of pods asks one node of each.
//
// Example. 20,000 nodes in the availability zones a and b, a third of them with a taint, make four node classes. A pod with a node selector for
// zone a that tolerates the taint may use two of them. Its ranking has a heap for each node class. The decision compares the first nodes of two heaps,
// adds the normalised scores of either, and returns the better node. The placement changes that one node, so the ranking moves one heap entry
// before the next pod: O(log nodes).
//
// What is asked about once, or by turns with a thousand others, gets no order of its own (usage decides). A search answers for it: branch and
// bound in a forest, which has an R-tree of the nodes of each node class by what is free on them, and serves pods of all sizes. Where there is no
// bound, a scan answers, one pass over dense columns. A class that names its nodes is judged on these alone; one that would tell nodes apart too finely
// has an ownSelection; images add to what the nodes that have them score.
//
// A class whose place depends on where other pods stand (required affinity, hard spreading), and that is asked about often, gets a classIndex of its own. There
// groups are made by coordinates: the values that those constraints read of a node, so that one node still answers for its group.
//
// Beside the best node, the Index answers how many pods of a class fit on each node and in each domain (Capacity), divides nodes by labels
// (Partition), and scores the nodes of some domains as if there were no others (DomainScorer); package pack builds on these.
//
// The interface is narrow, so that the rankings can be replaced: New, Place, PlaceOn, Choose, Tie, Capacity, Partition, DomainScorer. No caller
// knows how an order is kept.
package index
