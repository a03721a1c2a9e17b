package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"hilbert.dev/hilbert/cluster/replica"
	"hilbert.dev/hilbert/schedule/outside"
)

const (
	// helloTimeout bounds the time between a connection and its Hello.
	helloTimeout = 5 * time.Second
	// pingAfter is how long nothing may come before the other side is asked whether it is there, pingTimeout how long it may take to say so.
	pingAfter   = 10 * time.Second
	pingTimeout = 2 * time.Second
	// maxStreams bounds what a connection may open: a scheduler needs one.
	maxStreams = 4
	// maxHeaders bounds what comes before the first message: a token is a few KiB.
	maxHeaders = 64 << 10
)

// Why a scheduler is not taken in, beside what is wrong with itself.
var (
	// ErrStandby says that this process does not lead now.
	ErrStandby = errors.New("this process does not lead")
	// ErrUncertain says that nobody could say whose its token is. It may try again.
	ErrUncertain = errors.New("the token could not be checked")
)

// Desk is the leader's loop. Its methods may be called by many goroutines.
type Desk interface {
	// Join takes a scheduler in, which has shown a token; empty: none. The error says why not; ErrStandby: another process leads, or none.
	Join(ctx context.Context, h *outside.Hello, token string) (Member, *outside.Welcome, error)
}

// Member is a scheduler that has joined.
type Member interface {
	// Works are the messages for it, until it is closed: then the stream is to end.
	Works() <-chan *outside.Work
	// Shed reports, once Works is closed, whether the scheduler was too slow. Otherwise this process leads no more.
	Shed() bool
	// Answer takes an answer.
	Answer(ctx context.Context, a *outside.Answer) error
	// Leave says that the stream has ended.
	Leave()
}

// Server serves schedulers in other processes.
type Server struct {
	desk Desk
	log  *slog.Logger
	grpc *grpc.Server
	done chan struct{}
}

// Serve serves on a listener until Close. files nil: without TLS, for tests.
func Serve(listener net.Listener, desk Desk, files *Files, log *slog.Logger) (*Server, error) {
	c, err := newCodec()
	if err != nil {
		return nil, err
	}
	options := []grpc.ServerOption{
		grpc.ForceServerCodec(c), grpc.MaxRecvMsgSize(replica.MaxMessage), grpc.MaxSendMsgSize(replica.MaxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaders), grpc.ConnectionTimeout(helloTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingAfter / 2, PermitWithoutStream: true}),
	}
	if files != nil {
		config, err := files.serverConfig()
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	s := &Server{desk: desk, log: log, grpc: grpc.NewServer(options...), done: make(chan struct{})}
	s.grpc.RegisterService(describe(), s)
	go func() {
		defer close(s.done)
		if err := s.grpc.Serve(listener); err != nil {
			log.Error("the server for schedulers ended", "err", err)
		}
	}()
	return s, nil
}

// Close ends all streams.
func (s *Server) Close() {
	s.grpc.Stop()
	<-s.done
}

// join serves one stream.
func (s *Server) join(stream grpc.ServerStream) error {
	ctx := stream.Context()
	hello, err := s.hello(stream)
	if err != nil {
		return err
	}
	member, welcome, err := s.desk.Join(ctx, hello, tokenOf(ctx))
	if err != nil {
		if errors.Is(err, ErrStandby) {
			return status.Error(codes.Unavailable, err.Error())
		}
		s.log.Warn("refused a scheduler", "name", hello.Name, "version", hello.Version, "why", err)
		if errors.Is(err, ErrUncertain) {
			return status.Error(codes.Unavailable, err.Error())
		}
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	defer member.Leave()
	if err := stream.SendMsg(&fromLeader{Welcome: welcome}); err != nil {
		return err
	}
	s.log.Info("a scheduler has joined", "name", hello.Name, "number", welcome.Number, "epoch", welcome.Epoch)
	var decided atomic.Int64
	defer func() {
		s.log.Info("a scheduler has left", "name", hello.Name, "number", welcome.Number, "decided", decided.Load())
	}()
	failed := make(chan error, 1)
	go func() { failed <- s.answers(stream, member, &decided) }()
	for {
		select {
		case work, open := <-member.Works():
			switch {
			case !open && member.Shed():
				return status.Error(codes.Aborted, "the leader has shed this scheduler, which was too slow")
			case !open:
				return status.Error(codes.Unavailable, ErrStandby.Error())
			}
			if err := stream.SendMsg(&fromLeader{Work: work}); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hello waits for the first message. Who sends none is closed by Stop, or by its transport's keep-alive.
func (s *Server) hello(stream grpc.ServerStream) (*outside.Hello, error) {
	type result struct {
		message fromScheduler
		err     error
	}
	got := make(chan result, 1)
	go func() {
		var r result
		r.err = stream.RecvMsg(&r.message)
		got <- r
	}()
	timer := time.NewTimer(helloTimeout)
	defer timer.Stop()
	select {
	case r := <-got:
		if r.err != nil {
			return nil, r.err
		}
		if r.message.Hello == nil {
			return nil, status.Error(codes.InvalidArgument, "the first message is no Hello")
		}
		return r.message.Hello, nil
	case <-timer.C:
		return nil, status.Error(codes.DeadlineExceeded, "no Hello came")
	}
}

func (s *Server) answers(stream grpc.ServerStream, member Member, decided *atomic.Int64) error {
	for {
		var m fromScheduler
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
		if m.Answer == nil {
			return status.Error(codes.InvalidArgument, "a message is no Answer")
		}
		if err := member.Answer(stream.Context(), m.Answer); err != nil {
			return status.Error(codes.Aborted, err.Error())
		}
		decided.Add(int64(len(m.Answer.Decisions)))
	}
}

// Listen opens the address for schedulers.
func Listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("peers.bindAddress: %w; choose another address", err)
	}
	return listener, nil
}

// minVersion of TLS: both sides are ours.
const minVersion = tls.VersionTLS13
