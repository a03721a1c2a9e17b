package policy

// statusRows: what hilbertd may write of a pod's status, and others beside it.
func statusRows() []request {
	const fields, meta = "pods/status: hilbertd writes conditions, nominatedNodeName and extendedResourceClaimStatus, not ", "pods/status: hilbertd leaves labels"
	status := func(text string) string { return `{"status":{` + text + `}}` }
	return []request{
		{"hilbertd nominates", patches(hilbertd, "free", status(`"nominatedNodeName":"n1"`), "status"), ""},
		{"hilbertd says why", patches(hilbertd, "free", status(`"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]`), "status"), ""},
		{"hilbertd fails a pod", patches(hilbertd, "free", status(`"phase":"Failed"`), "status"), fields + "phase"},
		{"hilbertd gives a pod an address", patches(hilbertd, "free", status(`"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]`), "status"), fields + "podIP"},
		{"hilbertd writes a message beside what it may", patches(hilbertd, "free", status(`"message":"x","nominatedNodeName":"n1"`), "status"), fields + "message"},
		{"hilbertd labels a pod by its status", patches(hilbertd, "free", `{"metadata":{"labels":{"a":"b"}}}`, "status"), meta},
		{"hilbertd annotates a pod by its status", patches(hilbertd, "free", annotates("a", `"b"`), "status"), meta},
		{"hilbertd holds a pod by its status", patches(hilbertd, "free", `{"metadata":{"finalizers":["example.com/x"]}}`, "status"), meta},
		{"the administrator fails a pod", patches(admin, "free", status(`"phase":"Failed"`), "status"), ""},
	}
}
