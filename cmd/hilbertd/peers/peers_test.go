package peers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/outside"
)

// leaderDesk is a leader: a Scheduler behind a lock. It sends nothing by itself.
type leaderDesk struct {
	mu      sync.Mutex
	s       *schedule.Scheduler
	standby bool
	token   string // of whom asked last
	members map[schedule.OutsideID]*deskMember
	events  chan string
}

type deskMember struct {
	desk  *leaderDesk
	id    schedule.OutsideID
	works chan *outside.Work
	shed  bool
}

func newDesk(t *testing.T) *leaderDesk {
	t.Helper()
	s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	s.Outside().Begin("me/1")
	for _, name := range []string{"n0", "n1"} {
		s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name, Allocatable: []resource.Quantity{{Name: "cpu", Amount: 4000}, {Name: "pods", Amount: 10}}}}, time.Unix(0, 0))
	}
	return &leaderDesk{s: s, members: make(map[schedule.OutsideID]*deskMember), events: make(chan string, 100)}
}

func (d *leaderDesk) Join(_ context.Context, h *outside.Hello, token string) (Member, *outside.Welcome, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.token = token
	if d.standby {
		d.events <- "standby"
		return nil, nil, ErrStandby
	}
	id, welcome, err := d.s.Outside().Join(h, time.Unix(0, 0))
	if err != nil {
		d.events <- "refused"
		return nil, nil, err
	}
	m := &deskMember{desk: d, id: id, works: make(chan *outside.Work, 1)}
	d.members[id] = m
	d.events <- "joined"
	return m, welcome, nil
}

func (m *deskMember) Works() <-chan *outside.Work { return m.works }

func (m *deskMember) Shed() bool { return m.shed }

func (m *deskMember) Answer(_ context.Context, a *outside.Answer) error {
	m.desk.mu.Lock()
	defer m.desk.mu.Unlock()
	err := m.desk.s.Outside().Answer(m.id, a, time.Unix(0, 0))
	m.desk.events <- "answered"
	return err
}

func (m *deskMember) Leave() {
	m.desk.mu.Lock()
	defer m.desk.mu.Unlock()
	m.desk.s.Outside().Leave(m.id, time.Unix(0, 0))
	m.desk.events <- "left"
}

// step decides, and sends what is to be sent.
func (d *leaderDesk) step() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.s.Step(time.Unix(0, 0), 100)
	for _, send := range d.s.Outside().Works(time.Unix(0, 0)) {
		d.members[send.To].works <- send.Work
	}
}

func (d *leaderDesk) await(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-d.events:
		if got != want {
			t.Fatalf("%s; want %s", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("not %s within a minute", want)
	}
}

// serve serves a desk, and returns how to reach it.
func serve(t *testing.T, d *leaderDesk, files *Files) func(context.Context, string) (net.Conn, error) {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	s, err := Serve(listener, d, files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
}

func hello() outside.Hello {
	return outside.Hello{Protocol: outside.Protocol, Schema: outside.Schema(), Name: "test"}
}

// run runs a client until the returned function is called.
func run(t *testing.T, c *Client) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// A scheduler joins, is brought up to date and decides; when it dies its units come back, and the leader decides on them itself.
func TestJoinDecideDie(t *testing.T) {
	d := newDesk(t)
	stop := run(t, &Client{Addresses: []string{"leader:1"}, Dial: serve(t, d, nil), Hello: hello(), Log: slog.New(slog.DiscardHandler)})
	d.await(t, "joined")
	d.step()
	d.await(t, "answered")
	bind := func(uid facts.UID) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Name: string(uid), Namespace: "default", Ours: true, Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: 1000}}}}}, time.Unix(0, 0))
	}
	bind("a")
	d.step()
	d.await(t, "answered")
	d.step()
	d.mu.Lock()
	if w := d.s.Workers(); w.Committed != 1 || d.s.Store().Pod("a").Node() == "" {
		t.Errorf("%+v; the pod is on %q", w, d.s.Store().Pod("a").Node())
	}
	d.mu.Unlock()
	bind("b")
	d.mu.Lock()
	d.s.Step(time.Unix(0, 0), 100) // it is handed out, and not sent
	d.mu.Unlock()
	stop()
	d.await(t, "left")
	d.step()
	if d.s.Store().Pod("b").Node() == "" || d.s.Outside().Counts().Schedulers != 0 {
		t.Errorf("the pod of a scheduler that died is on %q; %+v", d.s.Store().Pod("b").Node(), d.s.Outside().Counts())
	}
}

// waits collects for how long a client says that it waits.
type waits struct {
	slog.Handler
	list chan time.Duration
}

func (w waits) Enabled(context.Context, slog.Level) bool { return true }

func (w waits) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "wait" {
			w.list <- a.Value.Duration()
		}
		return true
	})
	return nil
}

// One that is shed again and again waits longer each time. One whose leader leads no more does not: soon another will.
func TestOnlyTheSlowWaitLonger(t *testing.T) {
	for _, shed := range []bool{false, true} {
		d := newDesk(t)
		w := waits{slog.DiscardHandler, make(chan time.Duration, 100)}
		run(t, &Client{Addresses: []string{"leader:1"}, Dial: serve(t, d, nil), Hello: hello(), Log: slog.New(w)})
		for i, want := range []time.Duration{firstWait, 2 * firstWait, 4 * firstWait} {
			d.await(t, "joined")
			d.mu.Lock()
			for id, m := range d.members {
				m.shed = shed
				close(m.works)
				delete(d.members, id)
			}
			d.mu.Unlock()
			d.await(t, "left")
			if !shed {
				want = firstWait
			}
			if got := <-w.list; got != want {
				t.Errorf("shed %v, time %d: it waits for %s, want %s", shed, i, got, want)
			}
		}
	}
}

// Of several processes the one that leads is found. One that leads and refuses says why.
func TestOneThatLeadsIsFound(t *testing.T) {
	standby, leads := newDesk(t), newDesk(t)
	standby.standby = true
	dials := map[string]func(context.Context, string) (net.Conn, error){"standby:1": serve(t, standby, nil), "leader:1": serve(t, leads, nil)}
	dial := func(ctx context.Context, address string) (net.Conn, error) { return dials[address](ctx, address) }
	run(t, &Client{Addresses: []string{"standby:1", "leader:1"}, Dial: dial, Hello: hello(), Log: slog.New(slog.DiscardHandler)})
	standby.await(t, "standby")
	leads.await(t, "joined")
	old := hello()
	old.Schema = "of another version"
	c := &Client{Addresses: []string{"leader:1", "standby:1"}, Dial: dial, Hello: old, Log: slog.New(slog.DiscardHandler)}
	if joined, err := c.tryAll(t.Context()); joined || err == nil || !strings.Contains(err.Error(), "run the leader's version") {
		t.Errorf("joined: %v, %v", joined, err)
	}
}

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir}
	a.cert, a.key = a.make(&x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true})
	return a
}

func (a *authority) make(of *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.n++
	of.SerialNumber, of.Subject = big.NewInt(a.n), pkix.Name{CommonName: "test"}
	of.NotBefore, of.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = of, key
	}
	der, failed := x509.CreateCertificate(rand.Reader, of, parent, key.Public(), signer)
	if err = errors.Join(err, failed); err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// files writes a certificate, its key and the authority to files of a name.
func (a *authority) files(name string, of *x509.Certificate, names ...string) *Files {
	a.t.Helper()
	cert, key := a.make(of)
	der, err := x509.MarshalECPrivateKey(key)
	f := &Files{Certificate: filepath.Join(a.dir, name+".crt"), Key: filepath.Join(a.dir, name+".key"), Authorities: filepath.Join(a.dir, name+".ca"), Names: names}
	write := func(path, kind string, der []byte) {
		err = errors.Join(err, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		err = errors.Join(err, os.Chtimes(path, time.Now(), time.Unix(a.cert.NotBefore.Unix()+a.n, 0))) // each is another file
	}
	write(f.Certificate, "CERTIFICATE", cert.Raw)
	write(f.Key, "EC PRIVATE KEY", der)
	write(f.Authorities, "CERTIFICATE", a.cert.Raw)
	if err != nil {
		a.t.Fatal(err)
	}
	return f
}

func leaderCertificate() *x509.Certificate {
	return &x509.Certificate{DNSNames: []string{"leader"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}

func schedulerCertificate(path string) *x509.Certificate {
	return &x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "x", Path: path}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

// Both sides want a certificate of the authority with a name that they know. Authorities that are replaced are believed at the next connection, and old ones no more.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	ours := newAuthority(t, dir)
	d := newDesk(t)
	server := ours.files("leader", leaderCertificate(), "spiffe://x/scheduler")
	dial := serve(t, d, server)
	try := func(f *Files) error {
		c := &Client{Addresses: []string{"leader:1"}, Files: f, Dial: dial, Hello: hello(), Log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			joined, err := c.tryAll(ctx)
			if joined {
				err = nil
			}
			ended <- err
		}()
		select {
		case event := <-d.events:
			if event != "joined" {
				t.Fatal(event)
			}
			cancel()
			d.await(t, "left")
			return nil
		case err := <-ended:
			if err == nil {
				t.Fatal("nobody joined, and nothing was wrong")
			}
			return err
		}
	}
	good := ours.files("good", schedulerCertificate("/scheduler"))
	if err := try(good); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]*Files{
		"another scheduler":         ours.files("other", schedulerCertificate("/other")),
		"another server's name":     ours.files("name", schedulerCertificate("/scheduler"), "somebody"),
		"another authority":         newAuthority(t, dir).files("foreign", schedulerCertificate("/scheduler")),
		"a server's certificate":    ours.files("server", leaderCertificate()),
		"a certificate without SAN": ours.files("bare", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}),
	} {
		if err := try(bad); err == nil {
			t.Errorf("%s was let in", name)
		}
	}
	next := newAuthority(t, dir)
	next.n = 1000
	next.files("leader", leaderCertificate())
	if err := try(good); err == nil {
		t.Error("a certificate of the old authority was let in")
	}
	next.files("good", schedulerCertificate("/scheduler"))
	if err := try(good); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
}
