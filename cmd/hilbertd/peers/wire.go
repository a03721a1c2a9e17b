package peers

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"

	"hilbert.dev/hilbert/cluster/replica"
	"hilbert.dev/hilbert/schedule/outside"
)

// fromScheduler and fromLeader are what goes over a stream; one field of each is set.
type (
	fromScheduler struct {
		Hello  *outside.Hello
		Answer *outside.Answer
	}
	fromLeader struct {
		Welcome *outside.Welcome
		Work    *outside.Work
	}
)

const (
	service = "hilbert.dev.Schedulers"
	method  = "Join"
	path    = "/" + service + "/" + method
)

// codec is replica's, as gRPC wants it.
type codec struct{ *replica.Codec }

var _ encoding.Codec = codec{}

func newCodec() (codec, error) {
	c, err := replica.NewCodec()
	return codec{c}, err
}

func (c codec) Marshal(v any) ([]byte, error)      { return c.Encode(v) }
func (c codec) Unmarshal(text []byte, v any) error { return c.Decode(text, v) }
func (codec) Name() string                         { return "cbor" }

// describe is the service. There is one method, a stream of messages in both directions.
func describe() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*joiner)(nil),
		Streams: []grpc.StreamDesc{{StreamName: method, ServerStreams: true, ClientStreams: true, Handler: func(srv any, stream grpc.ServerStream) error {
			j, ok := srv.(joiner)
			if !ok {
				return fmt.Errorf("%T does not serve schedulers", srv)
			}
			return j.join(stream)
		}}},
	}
}

type joiner interface{ join(grpc.ServerStream) error }
