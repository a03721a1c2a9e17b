package crash

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The configurations of dispatchers and schedulers in processes of their own: kubeconfig, lease, own port, directory; and the ports of both dispatchers, directory.
const (
	dispatcherConfiguration = configuration + `roles: [dispatcher, binder]
peers: {bindAddress: "127.0.0.1:%d", tlsCertFile: %[4]s/dispatcher.crt, tlsPrivateKeyFile: %[4]s/dispatcher.key, caFile: %[4]s/ca.crt, schedulerNames: ["spiffe://lab/scheduler"]}
`
	schedulerConfiguration = `apiVersion: config.hilbert.dev/v1alpha1
kind: HilbertConfiguration
roles: [scheduler]
server: {bindAddress: "-"}
peers: {addresses: ["127.0.0.1:%d", "127.0.0.1:%d"], tlsCertFile: %[3]s/scheduler.crt, tlsPrivateKeyFile: %[3]s/scheduler.key, caFile: %[3]s/ca.crt, serverName: dispatcher.lab}
`
)

// outsideRig has, beside two processes of which one leads, schedulers that decide for it.
type outsideRig struct {
	*rig
	ports      [2]int
	schedulers [2]*hilbertd
}

func newOutsideRig(t *testing.T) *outsideRig {
	o := &outsideRig{}
	dir := t.TempDir()
	writeCertificates(t, dir)
	for i := range o.ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		o.ports[i] = listener.Addr().(*net.TCPAddr).Port
		_ = listener.Close() // hilbertd opens it again
	}
	o.rig = newRigOf(t, rigOptions{configure: func(i int, kubeconfig string) string {
		return fmt.Sprintf(dispatcherConfiguration, kubeconfig, leaseSeconds, o.ports[i], dir)
	}})
	file := filepath.Join(o.dir, "scheduler.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, schedulerConfiguration, o.ports[0], o.ports[1], dir), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range o.schedulers {
		o.restartScheduler(i)
	}
	t.Cleanup(func() {
		for _, d := range o.schedulers {
			_ = d.kill()
			text, _ := os.ReadFile(filepath.Join(o.dir, d.name+".log"))
			if t.Failed() {
				t.Logf("%s:\n%s", d.name, text[max(0, len(text)-4000):])
			}
		}
	})
	return o
}

func (o *outsideRig) restartScheduler(i int) {
	d, err := startHilbertd(o.dir, fmt.Sprintf("scheduler-%d", i), filepath.Join(o.dir, "scheduler.yaml"))
	if err != nil {
		o.t.Fatal(err)
	}
	o.schedulers[i] = d
}

// joined waits until a scheduler's log says that it decides for a leader, as often as that.
func (o *outsideRig) joined(i, times int) {
	o.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(o.dir, o.schedulers[i].name+".log"))
		if err != nil {
			o.t.Fatal(err)
		}
		if strings.Count(string(text), `msg="deciding for a leader"`) >= times {
			return
		}
	}
	o.t.Fatalf("%s has not joined a leader %d times within %s", o.schedulers[i].name, times, patience)
}

// TestSchedulersElsewhere: schedulers in processes of their own decide for one of two dispatchers. Schedulers and dispatchers are killed while pods are bound. No pod is lost or bound twice, and
// no node is overbooked.
func TestSchedulersElsewhere(t *testing.T) {
	strikes := 12
	if testing.Short() {
		strikes = 4
	}
	o := newOutsideRig(t)
	joins := [2]int{}
	await := func(i int) {
		joins[i]++
		o.joined(i, joins[i])
	}
	await(0)
	await(1)
	struck := 0
	for i := range strikes {
		if err := o.addBatch(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		o.awaitBound(i*batchPods + 1 + o.random.IntN(batchPods-batchPods/10))
		if i%3 < 2 {
			victim := i % 2
			if err := o.schedulers[victim].kill(); err != nil {
				t.Fatal(err)
			}
			o.restartScheduler(victim)
			await(victim)
			struck++
			continue
		}
		leader, err := o.leader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := o.daemons[leader].kill(); err != nil {
			t.Fatal(err)
		}
		o.leadersHit++
		if err := o.restart(leader); err != nil {
			t.Fatal(err)
		}
		await(0)
		await(1)
	}
	o.awaitBound(strikes * batchPods)
	o.audit(strikes * batchPods)
	left, decided := 0, 0
	for i := range o.daemons {
		for _, found := range regexp.MustCompile(`msg="a scheduler has left".* decided=(\d+)`).FindAllSubmatch(o.logOf(i), -1) {
			n, err := strconv.Atoi(string(found[1]))
			if err != nil {
				t.Fatal(err)
			}
			left, decided = left+1, decided+n
		}
	}
	t.Logf("%d pods were decided on by schedulers that were killed, of %d", decided, strikes*batchPods)
	if left < struck || decided < struck {
		t.Errorf("%d schedulers were killed and %d have left, which had decided on %d pods: the wrong processes were struck", struck, left, decided)
	}
}

func (o *outsideRig) logOf(i int) []byte {
	text, err := os.ReadFile(filepath.Join(o.dir, o.daemons[i].name+".log"))
	if err != nil {
		o.t.Fatal(err)
	}
	return text
}

// writeCertificates makes an authority, and a certificate of it for each side.
func writeCertificates(t *testing.T, dir string) {
	t.Helper()
	authority, key := newCertificate(t, &x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true}, nil, nil)
	writePEM(t, filepath.Join(dir, "ca.crt"), "CERTIFICATE", authority.Raw)
	for name, of := range map[string]*x509.Certificate{
		"dispatcher": {DNSNames: []string{"dispatcher.lab"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		"scheduler":  {URIs: []*url.URL{{Scheme: "spiffe", Host: "lab", Path: "/scheduler"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	} {
		certificate, own := newCertificate(t, of, authority, key)
		writePEM(t, filepath.Join(dir, name+".crt"), "CERTIFICATE", certificate.Raw)
		der, err := x509.MarshalECPrivateKey(own)
		if err != nil {
			t.Fatal(err)
		}
		writePEM(t, filepath.Join(dir, name+".key"), "EC PRIVATE KEY", der)
	}
}

func newCertificate(t *testing.T, of, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of.SerialNumber, of.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "lab"}
	of.NotBefore, of.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	if parent == nil {
		parent, signer = of, key
	}
	der, err := x509.CreateCertificate(cryptorand.Reader, of, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
