package lease

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Holder is who holds the Lease, as its holderIdentity says it, so that people's tools find the leader:
//
//	hilbert-system/hilbertd-6d4b75cb6d-hwf8q:10461_4be1…   a pod, by namespace and name, and the port that it serves on
//	machine-7:10461_4be1…                                  a process outside of the cluster, by its host's name
//
// Without a port nothing is served. The part after the last underscore makes the identity unique.
type Holder struct {
	Namespace string // empty: not a pod
	Name      string
	Port      int
	ID        string
}

// String is the holderIdentity.
func (h Holder) String() string {
	text := h.Name
	if h.Namespace != "" {
		text = h.Namespace + "/" + text
	}
	if h.Port > 0 {
		text += ":" + strconv.Itoa(h.Port)
	}
	return text + "_" + h.ID
}

// hostName is how a machine may be called: more than DNS allows, and nothing that could lead elsewhere in a URL or confuse a terminal.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// ParseHolder reads a holderIdentity. Anybody who may write Leases can write one, so that a name that is none is refused.
func ParseHolder(identity string) (Holder, error) {
	at := strings.LastIndexByte(identity, '_')
	if at <= 0 {
		return Holder{}, fmt.Errorf("the Lease's holderIdentity %q is not one of hilbertd's", identity)
	}
	h := Holder{Name: identity[:at], ID: identity[at+1:]}
	if namespace, name, ok := strings.Cut(h.Name, "/"); ok {
		if namespace == "" {
			return Holder{}, fmt.Errorf("the Lease's holderIdentity %q has an empty namespace", identity)
		}
		h.Namespace, h.Name = namespace, name
	}
	if name, port, ok := strings.Cut(h.Name, ":"); ok {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return Holder{}, fmt.Errorf("the Lease's holderIdentity %q has no port: %w", identity, err)
		}
		h.Name, h.Port = name, int(number)
	}
	if pod := h.Namespace != ""; pod && len(validation.IsDNS1123Label(h.Namespace))+len(validation.IsDNS1123Subdomain(h.Name)) > 0 || !pod && !hostName.MatchString(h.Name) {
		return Holder{}, fmt.Errorf("the Lease's holderIdentity %q names neither a pod nor a machine", identity)
	}
	return h, nil
}

// namespaceFile is where Kubernetes tells a pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Advertise makes the identity say where this process serves, at a listener's address (empty: nowhere). Call it before Campaign.
func (e *Elector) Advertise(address string) error {
	at := strings.LastIndexByte(e.identity, '_')
	h := Holder{Name: e.identity[:at], ID: e.identity[at+1:]}
	if address != "" {
		_, port, err := net.SplitHostPort(address)
		if err == nil {
			h.Port, err = strconv.Atoi(port)
		}
		if err != nil {
			return fmt.Errorf("name this process for the leader election: %w", err)
		}
	}
	if namespace, err := os.ReadFile(namespaceFile); err == nil { // else this is no pod
		h.Namespace = strings.TrimSpace(string(namespace))
	}
	e.identity = h.String()
	return nil
}
