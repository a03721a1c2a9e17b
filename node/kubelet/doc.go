// Package kubelet asks the kubelet of the node, beside the agent's loop, for what the laws of memory and disks must know of it.
//
// Thresholds compares our thresholds of eviction with the kubelet's. Storage asks once a minute what pods hold of file systems. The answers come back as messages of the loop.
//
// For example, the kubelet evicts from 20 % of memory on, and the agent from 10 %. Thresholds reads that at the start; Withholds is true, no memory is lent beyond what runs, and the condition
// AgentReady says KubeletEvictsFirst. When the kubelet has been started again with 5 %, the next answer ends that.
//
// Invariants: one question of each kind is under way at a time. As long as thresholds were never read, memory is withheld; once read they stand while the kubelet does not answer. The last answer on
// storage stands until it is too old, which node/storage judges.
//
// It does not know how the kubelet is reached (a ThresholdReader and a StorageReader do), and evicts nothing. Which devices the kubelet gave to pods is node/devices' to ask.
package kubelet
