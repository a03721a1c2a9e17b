package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// clusterName names the lab in the kubeconfigs that it writes.
const clusterName = "hilbert-lab"

// DefaultKubeconfig is where the running lab keeps the administrator's kubeconfig, so that commands in other terminals find it:
// hilbert-lab/kubeconfig in the user's cache directory.
func DefaultKubeconfig() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the kubeconfig: %w (set HOME or XDG_CACHE_HOME, or name a file)", err)
	}
	return filepath.Join(cache, "hilbert-lab", "kubeconfig"), nil
}

// AdminConfig is a cluster-admin client configuration: protobuf, and no client-side rate limit.
func (c *ControlPlane) AdminConfig() *rest.Config {
	return &rest.Config{
		Host:            c.url(),
		BearerToken:     c.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: bytes.Clone(c.authority.pem)},
		ContentConfig: rest.ContentConfig{
			ContentType:        runtime.ContentTypeProtobuf,
			AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		},
		QPS: -1,
	}
}

// WriteKubeconfig writes the administrator's kubeconfig to path, readable by the owner only, and makes its directory.
func (c *ControlPlane) WriteKubeconfig(path string) error {
	return c.writeKubeconfig(path, adminUser, &clientcmdapi.AuthInfo{Token: c.token})
}

// UserKubeconfig writes a kubeconfig for user, a member of groups, as RBAC knows them. It grants nothing by itself: bind roles to the user.
func (c *ControlPlane) UserKubeconfig(path, user string, groups ...string) error {
	if user == "" {
		return fmt.Errorf("kubeconfig %s: the user's name is empty", path)
	}
	pair, err := c.authority.client(user, groups...)
	if err != nil {
		return fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	return c.writeKubeconfig(path, user, &clientcmdapi.AuthInfo{ClientCertificateData: pair.certificate, ClientKeyData: pair.key})
}

// KubeconfigAt is the text of a kubeconfig for user, a member of groups, who reaches the API server at address (one of Options.Addresses).
// A kubelet's user is system:node:NAME in the group system:nodes. Like UserKubeconfig it grants nothing.
func (c *ControlPlane) KubeconfigAt(address, user string, groups ...string) ([]byte, error) {
	pair, err := c.authority.client(user, groups...)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	_, port, err := net.SplitHostPort(c.server.address)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	config := c.kubeconfig("https://"+net.JoinHostPort(address, port), user,
		&clientcmdapi.AuthInfo{ClientCertificateData: pair.certificate, ClientKeyData: pair.key})
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	return text, nil
}

// CA is the certificate that signs those of the API server and of its clients, as PEM.
func (c *ControlPlane) CA() []byte { return bytes.Clone(c.authority.pem) }

func (c *ControlPlane) kubeconfig(server, user string, auth *clientcmdapi.AuthInfo) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters[clusterName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: c.authority.pem}
	config.AuthInfos[user] = auth
	config.Contexts[clusterName] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: user}
	config.CurrentContext = clusterName
	return config
}

func (c *ControlPlane) writeKubeconfig(path, user string, auth *clientcmdapi.AuthInfo) error {
	if err := refuseForeign(path); err != nil {
		return err
	}
	config := c.kubeconfig(c.url(), user, auth)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}

// refuseForeign keeps the lab from overwriting a file that is not a kubeconfig of a lab: a user's own would be lost.
func refuseForeign(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	there, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return fmt.Errorf("%s exists and is no kubeconfig of a lab: name another file or remove it (%w)", path, err)
	}
	for name := range there.Clusters {
		if name != clusterName {
			return fmt.Errorf("%s is the kubeconfig of cluster %q: name another file or remove it", path, name)
		}
	}
	return nil
}

func (c *ControlPlane) url() string { return "https://" + c.server.address }
