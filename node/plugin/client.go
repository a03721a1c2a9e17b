package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	api "hilbert.dev/hilbert/api/nodeplugin/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/hint"
	"hilbert.dev/hilbert/topology"
)

const (
	// MaxPlugins bounds the sockets that are looked at.
	MaxPlugins = 8
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 256 << 10
	suffix    = ".sock"
)

// Directory is where plugins have their sockets.
type Directory struct {
	Path string
	// Node and Machine are what plugins are told of the node.
	Node    string
	Machine *topology.Machine
	// Mounts are the directories of the host from which plugins may mount something into containers.
	Mounts []string
	// Owner is the user that directory, sockets and plugins must belong to: root, but in tests.
	Owner uint32
}

// Socket is a plugin's socket. Another value of the same name is another socket: the plugin has been started anew.
type Socket struct {
	Name  string
	inode uint64
	born  int64
}

// List finds the sockets, by name. Without the directory there are none. Files that are no sockets, or whose names are no DNS labels, are left out; notes say
// so.
func (d *Directory) List() (out []Socket, notes []string, err error) {
	info, err := os.Lstat(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err == nil {
		err = guarded(info, d.Owner)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("plugins in %s: %w", d.Path, err)
	}
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("plugins in %s: %w", d.Path, err)
	}
	for _, e := range entries {
		name, isSocket := strings.CutSuffix(e.Name(), suffix)
		if !isSocket {
			continue
		}
		if len(name) > maxName || !label.MatchString(name) {
			notes = append(notes, fmt.Sprintf("%.128q: a socket's name is a DNS label and %s", e.Name(), suffix))
			continue
		}
		socket, err := d.socket(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has just ended
		case err != nil:
			notes = append(notes, err.Error())
		case len(out) == MaxPlugins:
			notes = append(notes, fmt.Sprintf("%s: there are more than %d plugins", e.Name(), MaxPlugins))
		default:
			out = append(out, socket)
		}
	}
	slices.SortFunc(out, func(a, b Socket) int { return strings.Compare(a.Name, b.Name) })
	return out, notes, nil
}

func (d *Directory) path(name string) string { return filepath.Join(d.Path, name+suffix) }

// socket looks at one.
func (d *Directory) socket(name string) (Socket, error) {
	info, err := os.Lstat(d.path(name))
	if err != nil {
		return Socket{}, err
	}
	inode, err := owned(info, d.Owner)
	if err != nil {
		return Socket{}, fmt.Errorf("%s%s: %w", name, suffix, err)
	}
	return Socket{name, inode, info.ModTime().UnixNano()}, nil
}

// Client is a connection to one plugin. Its methods may be called by any goroutine; each lasts as long as its context.
type Client struct {
	Socket Socket
	Info   Info
	read   reader
	conn   *grpc.ClientConn
	calls  api.NodePluginClient
}

// Connect connects to a plugin and registers it. A connection that is lost is not made again: Connect is called anew, so that the plugin is looked at anew.
func (d *Directory) Connect(ctx context.Context, s Socket) (*Client, error) {
	var used atomic.Bool
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, errors.New("the plugin has closed the connection")
		}
		return d.dial(ctx, s)
	}
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithContextDialer(dial),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, fmt.Errorf("connect to plugin %s: %w", s.Name, err)
	}
	c := &Client{Socket: s, conn: conn, calls: api.NewNodePluginClient(conn), read: reader{d.Machine, d.Mounts}}
	request := &api.RegisterRequest{Protocol: api.Protocol, Node: d.Node}
	for i := range d.Machine.NUMA {
		request.NumaNodes = append(request.NumaNodes, int32(d.Machine.NUMA[i].ID))
	}
	answer, err := c.calls.Register(ctx, request)
	if err == nil {
		c.Info, err = c.read.info(s.Name, answer)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("register plugin %s: %w", s.Name, err), conn.Close())
	}
	return c, nil
}

// dial opens the socket that was looked at, and sees who is behind it.
func (d *Directory) dial(ctx context.Context, s Socket) (net.Conn, error) {
	now, err := d.socket(s.Name)
	if err != nil {
		return nil, err
	}
	if now != s {
		return nil, fmt.Errorf("%s%s is another socket now", s.Name, suffix)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", d.path(s.Name))
	if err != nil {
		return nil, err
	}
	if err := peer(conn, d.Owner); err != nil {
		return nil, errors.Join(fmt.Errorf("%s%s: %w", s.Name, suffix, err), conn.Close())
	}
	return conn, nil
}

// Close closes the connection.
func (c *Client) Close() { _ = c.conn.Close() } // calls on it fail, which is all

// Reconcile tells the plugin what pods hold, and returns what there is and what the plugin says that pods hold.
func (c *Client) Reconcile(ctx context.Context, held []*Holding) (capacity topology.Amounts, has []*Holding, err error) {
	request := &api.ReconcileRequest{}
	for _, h := range held {
		request.Held = append(request.Held, &api.Allocation{Pod: podOf(h.Pod), Amounts: c.amountsOf(&h.Amounts), Ids: h.IDs})
	}
	answer, err := c.calls.Reconcile(ctx, request)
	if err != nil {
		return capacity, nil, c.failed("reconcile", err)
	}
	if capacity, err = c.read.amounts(answer.GetCapacity()); err != nil {
		return capacity, nil, c.failed("reconcile", err)
	}
	if has, err = c.read.held(c.Info.Resource, answer.GetHeld()); err != nil {
		return topology.Amounts{}, nil, c.failed("reconcile", err)
	}
	return capacity, has, nil
}

// Hints asks where a request could be served.
func (c *Client) Hints(ctx context.Context, r *Request) ([]hint.Hint, error) {
	answer, err := c.calls.Hints(ctx, &api.HintsRequest{Request: requestOf(r)})
	if err != nil {
		return nil, c.failed("hints", err)
	}
	hints, err := c.read.hints(answer)
	if err != nil {
		return nil, c.failed("hints", err)
	}
	return hints, nil
}

// Allocate has the plugin set a resource up for a pod, from a set of NUMA nodes.
func (c *Client) Allocate(ctx context.Context, r *Request, set uint8) (*Holding, error) {
	request := &api.AllocateRequest{Request: requestOf(r)}
	for i := range c.read.machine.NUMA {
		if i < topology.MaxNUMANodes && (set == 0 || set&(1<<i) != 0) {
			request.NumaNodes = append(request.NumaNodes, int32(c.read.machine.NUMA[i].ID))
		}
	}
	answer, err := c.calls.Allocate(ctx, request)
	if err != nil {
		return nil, c.failed("allocate", err)
	}
	h, err := c.read.allocation(r, answer)
	if err != nil {
		return nil, c.failed("allocate", err)
	}
	return h, nil
}

// Release has the plugin take back what a pod has.
func (c *Client) Release(ctx context.Context, pod spec.PodRef) error {
	if _, err := c.calls.Release(ctx, &api.ReleaseRequest{Pod: podOf(pod)}); err != nil {
		return c.failed("release", err)
	}
	return nil
}

func (c *Client) failed(what string, err error) error {
	return fmt.Errorf("plugin %s: %s: %w", c.Info.Name, what, err)
}

func (c *Client) amountsOf(a *topology.Amounts) (out []*api.Amount) {
	for i := range c.read.machine.NUMA {
		if i < topology.MaxNUMANodes && a.NUMA[i] > 0 {
			out = append(out, &api.Amount{NumaNode: int32(c.read.machine.NUMA[i].ID), Amount: a.NUMA[i]})
		}
	}
	if a.Far > 0 {
		out = append(out, &api.Amount{NumaNode: -1, Amount: a.Far})
	}
	return out
}

func podOf(p spec.PodRef) *api.Pod { return &api.Pod{Uid: p.UID, Namespace: p.Namespace, Name: p.Name} }

func requestOf(r *Request) *api.PodRequest {
	out := &api.PodRequest{Pod: podOf(r.Pod), Amount: r.Amount}
	for _, c := range r.Containers {
		out.Containers = append(out.Containers, &api.ContainerRequest{Container: c.Container, Amount: c.Amount, EndsFirst: c.EndsFirst})
	}
	return out
}
