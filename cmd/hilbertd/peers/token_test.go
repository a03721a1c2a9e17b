package peers

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/cmd/hilbertd/tokenfile"
)

// A scheduler shows the token that its file has when it joins, and joins with none that is no token.
func TestTokens(t *testing.T) {
	dir := t.TempDir()
	ours := newAuthority(t, dir)
	d := newDesk(t)
	c := &Client{
		Addresses: []string{"leader:1"}, Files: ours.files("good", schedulerCertificate("/scheduler")), Dial: serve(t, d, ours.files("leader", leaderCertificate(), "spiffe://x/scheduler")),
		Hello: hello(), Log: slog.New(slog.DiscardHandler),
	}
	shown := func() string {
		t.Helper()
		stop := run(t, c)
		d.await(t, "joined")
		stop()
		d.await(t, "left")
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.token
	}
	if got := shown(); got != "" {
		t.Errorf("without a file it shows %q", got)
	}
	c.TokenFile = filepath.Join(dir, "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(c.TokenFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, token := range []string{"first.a-b_c", "second.a-b_c"} {
		write(token + "\n")
		if got := shown(); got != token {
			t.Errorf("it shows %q, the file has %q", got, token)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // one that is let in decides until it ends
	defer cancel()
	for text, want := range map[string]string{"": "is empty", "\n": "is empty", "two words": "characters", strings.Repeat("x", tokenfile.Max+1): "more than"} {
		write(text)
		if joined, err := c.tryAll(ctx); joined || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "peers.tokenFile") {
			t.Errorf("%.10q: joined: %t, %v", text, joined, err)
		}
	}
	if err := os.Remove(c.TokenFile); err != nil {
		t.Fatal(err)
	}
	if joined, err := c.tryAll(ctx); joined || err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without its file: joined: %t, %v", joined, err)
	}
}
