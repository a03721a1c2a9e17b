package peers

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"hilbert.dev/hilbert/cmd/hilbertd/tokenfile"
)

// A token travels as it does everywhere.
const (
	tokenHeader = "authorization"
	tokenScheme = "Bearer "
)

// tokenFile shows the token in a file with each stream. It is read each time: kubelets replace tokens before they expire.
type tokenFile string

var _ credentials.PerRPCCredentials = tokenFile("")

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (f tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := tokenfile.Read(string(f))
	if err != nil {
		return nil, fmt.Errorf("peers.tokenFile: %w", err)
	}
	return map[string]string{tokenHeader: tokenScheme + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: nobody else may read it.
func (tokenFile) RequireTransportSecurity() bool { return true }

// tokenOf is the token that came with a stream, empty if none did.
func tokenOf(ctx context.Context) string {
	values := metadata.ValueFromIncomingContext(ctx, tokenHeader)
	if len(values) != 1 {
		return ""
	}
	token, ok := strings.CutPrefix(values[0], tokenScheme)
	if !ok {
		return ""
	}
	return token
}
