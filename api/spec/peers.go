package spec

import (
	"fmt"
	"slices"
	"strings"
)

// Peers is how a process with the roles dispatcher and binder, and processes with the role scheduler, know and reach each other. They speak TLS 1.3, with certificates on both sides; all
// files are read again when they change.
type Peers struct {
	// BindAddress is HOST:PORT where dispatcher and binder wait for schedulers.
	BindAddress string `json:"bindAddress,omitempty"`
	// Addresses are HOST:PORT where a scheduler finds the dispatchers: it decides for the one that leads. A host may have several addresses, as a headless Service has.
	Addresses []string `json:"addresses,omitempty"`
	// TLSCertFile is a PEM file with this process's certificate.
	TLSCertFile string `json:"tlsCertFile,omitempty"`
	// TLSPrivateKeyFile is a PEM file with the key of that certificate.
	TLSPrivateKeyFile string `json:"tlsPrivateKeyFile,omitempty"`
	// CAFile is a PEM file with the authorities that sign the other side's certificates.
	CAFile string `json:"caFile,omitempty"`
	// SchedulerNames are the DNS names and URIs (such as SPIFFE IDs) of which a scheduler's certificate must have one; for dispatcher and binder.
	SchedulerNames []string `json:"schedulerNames,omitempty"`
	// TokenAudience, if set, has a scheduler show a service account's token for this audience beside its certificate, which the leader lets the API server check (TokenReview) when the
	// scheduler joins; for dispatcher and binder.
	TokenAudience string `json:"tokenAudience,omitempty"`
	// TokenUsers are the users of whom such a token must be, like system:serviceaccount:NAMESPACE:NAME; for dispatcher and binder.
	TokenUsers []string `json:"tokenUsers,omitempty"`
	// TokenFile holds the token that a scheduler shows. It is read at each join, for kubelets replace it. Empty: it shows its certificate alone.
	TokenFile string `json:"tokenFile,omitempty"`
	// ServerName is the DNS name that a dispatcher's certificate must have; for schedulers. Empty: the host that is named in addresses.
	ServerName string `json:"serverName,omitempty"`
}

// IsLeader reports whether a process leads schedulers in other processes.
func IsLeader(roles []Role) bool {
	return len(roles) == 2 && slices.Contains(roles, RoleDispatcher) && slices.Contains(roles, RoleBinder)
}

// IsScheduler reports whether a process decides for a leader elsewhere.
func IsScheduler(roles []Role) bool { return len(roles) == 1 && roles[0] == RoleScheduler }

// validatePeers wants all that a process with split roles needs, and nothing in others: what is written there would have no effect.
func validatePeers(c *Configuration, bad report) {
	p := &c.Peers
	leads, follows := IsLeader(c.Roles), IsScheduler(c.Roles)
	for _, x := range []struct {
		field, value string
		wanted, may  bool
	}{
		{"peers.bindAddress", p.BindAddress, leads, leads},
		{"peers.addresses", strings.Join(p.Addresses, ","), follows, follows},
		{"peers.tlsCertFile", p.TLSCertFile, leads || follows, leads || follows},
		{"peers.tlsPrivateKeyFile", p.TLSPrivateKeyFile, leads || follows, leads || follows},
		{"peers.caFile", p.CAFile, leads || follows, leads || follows},
		{"peers.schedulerNames", strings.Join(p.SchedulerNames, ","), leads, leads},
		{"peers.tokenAudience", p.TokenAudience, leads && len(p.TokenUsers) > 0, leads},
		{"peers.tokenUsers", strings.Join(p.TokenUsers, ","), leads && p.TokenAudience != "", leads},
		{"peers.tokenFile", p.TokenFile, false, follows},
		{"peers.serverName", p.ServerName, false, follows},
	} {
		switch {
		case x.wanted && x.value == "":
			bad(x.field, "it is empty; with the roles %s it is needed", roleList(c.Roles))
		case !x.may && x.value != "":
			bad(x.field, "it has no effect with the roles %s; leave it out", roleList(c.Roles))
		}
	}
	for i, address := range p.Addresses {
		if at := strings.LastIndexByte(address, ':'); at < 1 || at == len(address)-1 {
			bad(fmt.Sprintf("peers.addresses[%d]", i), "%q is not HOST:PORT", address)
		}
	}
	if leads && c.Scheduling.Schedulers != 1 {
		bad("scheduling.schedulers", "%d schedulers in this process, and others beside it; write 1", c.Scheduling.Schedulers)
	}
}

func roleList(roles []Role) string {
	var names []string
	for _, role := range roles {
		names = append(names, string(role))
	}
	return strings.Join(names, ", ")
}
