package migrate

import "go.yaml.in/yaml/v3"

const kueueDomain = "kueue.x-k8s.io/"

// kueue stays beside Hilbert: it decides when a job may start, and lifts the gate of its pods; Hilbert says where they run.
func kueue() system {
	const why = "Kueue goes on admitting jobs, and Hilbert places what it lets go; give these namespaces no Queue of Hilbert's, or both charge them"
	kinds := make(map[string]func(*run, subject) ([]*yaml.Node, bool))
	for _, kind := range []string{
		"ClusterQueue", "LocalQueue", "ResourceFlavor", "Cohort", "Topology", "WorkloadPriorityClass", "AdmissionCheck", "ProvisioningRequestConfig", "MultiKueueConfig",
		"MultiKueueCluster",
	} {
		kinds[kind] = stays("kueue", why)
	}
	return system{
		name: "kueue", prefixes: []string{kueueDomain}, kept: []string{kueueDomain}, groups: []string{"kueue.x-k8s.io"}, kinds: kinds,
		pod: func(p *pod, _ bool) {
			for _, where := range []string{"labels", "annotations"} {
				o := p.of.at("metadata", where) // a job's words stand on the job
				for _, key := range o.keys() {
					if p.of.node != p.root.node && p.system.keeps(key) {
						value, _ := o.text(key)
						p.say(Kept, word{key, value, o.line(key)}, why)
						p.stays = true
					}
				}
			}
			p.keep(why)
		},
	}
}
