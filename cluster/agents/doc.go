// Package agents keeps what nodes' agents ask and tell in their reports, apart from what the nodes have: pods that they ask to evict, and events for people.
//
// The newest report of a node replaces all that the node asked and told before; a node whose report is gone asks and tells nothing. Readers of Requests look again when Serial has
// changed; Events has one reader, which asks for the nodes that have Changed.
//
// Example: the report of node n asks to evict pod a. Requests.Serial becomes 1, and schedule/relief, which saw 0, asks On(n). The next report says that it is refused: Serial is 2, and
// Told(n) lists a.
//
// The package decides nothing: who is evicted says schedule/relief, and which events are written schedule/events.
package agents
