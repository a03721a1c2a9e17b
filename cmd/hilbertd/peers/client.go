package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"hilbert.dev/hilbert/cluster/replica"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/outside"
)

const (
	// firstWait is how long to wait before the leader's addresses are tried again; the wait doubles up to maxWait.
	firstWait = 250 * time.Millisecond
	maxWait   = 30 * time.Second
	// standbyWait bounds the wait while some process answers that it does not lead: soon one will.
	standbyWait = time.Second
	// steady is how long a scheduler decides that is fast enough.
	steady = time.Minute
	// dialTimeout bounds one address.
	dialTimeout = 5 * time.Second
)

// Client decides for whoever leads.
type Client struct {
	// Addresses of those that may lead, host:port. A host may have several addresses.
	Addresses []string
	// Files nil: without TLS, for tests.
	Files *Files
	// TokenFile has a token to show beside the certificate; empty: none.
	TokenFile string
	Hello     outside.Hello
	Log       *slog.Logger
	// Knows, if set, is told after each Work how many nodes are known and whether all are; a negative number says that there is no leader.
	Knows func(nodes int, complete bool)
	// Dial, if set, opens connections; for tests.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Run decides until ctx ends.
func (c *Client) Run(ctx context.Context) {
	wait := firstWait
	for ctx.Err() == nil {
		began := time.Now()
		joined, err := c.tryAll(ctx)
		if ctx.Err() != nil {
			return
		}
		if joined && (status.Code(err) != codes.Aborted || time.Since(began) > steady) {
			wait = firstWait // it was not shed soon after it had joined
		}
		limit := maxWait
		if status.Code(err) == codes.Unavailable {
			limit = standbyWait
		}
		wait = min(wait, limit)
		c.Log.Info("no leader gives work; trying again", "addresses", c.Addresses, "wait", wait, "why", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait *= 2
	}
}

// tryAll tries all addresses until one gives work, and returns when it does so no more. The error is the one that says most.
func (c *Client) tryAll(ctx context.Context) (joined bool, err error) {
	for _, address := range c.Addresses {
		host, port, failed := net.SplitHostPort(address)
		hosts := []string{host}
		if failed == nil && c.Dial == nil && net.ParseIP(host) == nil {
			hosts, failed = net.DefaultResolver.LookupHost(ctx, host)
		}
		if failed != nil {
			err = cmp.Or(err, fmt.Errorf("find %s: %w", address, failed))
			continue
		}
		for _, one := range hosts {
			joined, failed := c.follow(ctx, net.JoinHostPort(one, port), host)
			if joined || ctx.Err() != nil {
				return joined, failed
			}
			if err == nil || status.Code(failed) == codes.FailedPrecondition {
				err = failed // the leader itself has refused
			}
		}
	}
	return false, err
}

// follow joins the process at an address, and decides for it.
func (c *Client) follow(ctx context.Context, address, host string) (joined bool, err error) {
	wire, err := newCodec()
	if err != nil {
		return false, err
	}
	security := insecure.NewCredentials()
	if c.Files != nil {
		config, err := c.Files.clientConfig(host)
		if err != nil {
			return false, err
		}
		security = credentials.NewTLS(config)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(security), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(wire), grpc.MaxCallRecvMsgSize(replica.MaxMessage), grpc.MaxCallSendMsgSize(replica.MaxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout, PermitWithoutStream: true}),
	}
	if c.TokenFile != "" {
		options = append(options, grpc.WithPerRPCCredentials(tokenFile(c.TokenFile)))
	}
	if c.Dial != nil {
		options = append(options, grpc.WithContextDialer(c.Dial))
	}
	connection, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return false, fmt.Errorf("connect to %s: %w", address, err)
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	giveUp := time.AfterFunc(dialTimeout, cancel)
	defer giveUp.Stop()
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{StreamName: method, ServerStreams: true, ClientStreams: true}, path)
	if err != nil {
		return false, err
	}
	if err := stream.SendMsg(&fromScheduler{Hello: &c.Hello}); err != nil {
		return false, err
	}
	var first fromLeader
	if err := stream.RecvMsg(&first); err != nil {
		return false, err
	}
	if first.Welcome == nil {
		return false, errors.New("the leader's first message is no Welcome")
	}
	giveUp.Stop()
	return true, c.decide(stream, first.Welcome)
}

// decide answers each Work.
func (c *Client) decide(stream grpc.ClientStream, welcome *outside.Welcome) error {
	follower, err := schedule.NewFollower(welcome)
	if err != nil {
		return err
	}
	c.Log.Info("deciding for a leader", "epoch", welcome.Epoch, "number", welcome.Number)
	defer c.knows(-1, false)
	for {
		var m fromLeader
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
		if m.Work == nil {
			return errors.New("a message of the leader is no Work")
		}
		answer, err := follower.Do(m.Work)
		if err != nil {
			return err
		}
		c.knows(follower.Nodes(), !m.Work.Delta.More)
		if err := stream.SendMsg(&fromScheduler{Answer: answer}); err != nil {
			return err
		}
	}
}

func (c *Client) knows(nodes int, complete bool) {
	if c.Knows != nil {
		c.Knows(nodes, complete)
	}
}
