package agent

import (
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// as is a client that speaks for somebody.
func (r *rig) as(user string, groups ...string) (kubernetes.Interface, error) {
	config := r.Plane.AdminConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return kubernetes.NewForConfig(config)
}
