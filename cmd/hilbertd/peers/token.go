package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

// A token travels as it does everywhere.
const (
	tokenHeader = "authorization"
	tokenScheme = "Bearer "
)

// maxToken bounds a file with a token.
const maxToken = 16 << 10

// tokenFile shows the token in a file with each stream. It is read each time: kubelets replace tokens before they expire.
type tokenFile string

var _ credentials.PerRPCCredentials = tokenFile("")

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (f tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := f.read()
	if err != nil {
		return nil, fmt.Errorf("peers.tokenFile: %w", err)
	}
	return map[string]string{tokenHeader: tokenScheme + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: nobody else may read it.
func (tokenFile) RequireTransportSecurity() bool { return true }

func (f tokenFile) read() (token string, err error) {
	file, err := os.Open(string(f))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err := io.ReadAll(io.LimitReader(file, maxToken+1))
	if err != nil {
		return "", err
	}
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0:
		return "", fmt.Errorf("%s is empty", string(f))
	case len(text) > maxToken:
		return "", fmt.Errorf("%s has more than %d bytes, and is no token", string(f), maxToken)
	case bytes.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%s has characters in it that no token has", string(f))
	}
	return string(text), nil
}

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
