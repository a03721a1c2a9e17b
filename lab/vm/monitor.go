package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"
)

// monitorTimeout bounds what QEMU's monitor takes to answer.
const monitorTimeout = 10 * time.Second

func monitorSocket(o Options) string { return filepath.Join(o.Dir, "monitor") }

// Reset starts the guest anew, as a power cut does, and returns when it answers again. Its disk stays as it is; what was not written to it is lost. A guest that hangs
// while it boots is reset again, as Boot does with one.
func (g *Guest) Reset(ctx context.Context) error {
	// It was started so that a reboot ends it, for that is what follows a panic.
	if err := g.monitor(ctx, command{"set-action", map[string]string{"reboot": "reset"}}); err != nil {
		return fmt.Errorf("reset the guest: %w", err)
	}
	var errs []error
	for range boots {
		err := g.resetOnce(ctx)
		if err == nil { // not before: QEMU answers before it resets
			return g.monitor(ctx, command{"set-action", map[string]string{"reboot": "shutdown"}})
		}
		errs = append(errs, err)
		g.options.Log("vm: after a reset: %v", err)
		select {
		case <-g.ended:
		case <-ctx.Done():
		default:
			continue
		}
		break
	}
	return fmt.Errorf("no guest after %d resets: %w", len(errs), errors.Join(errs...))
}

func (g *Guest) resetOnce(ctx context.Context) error {
	if err := g.monitor(ctx, command{"system_reset", nil}); err != nil {
		return err
	}
	g.http.CloseIdleConnections()
	if _, err := g.await(ctx); err != nil {
		return err
	}
	return errors.Join(g.checkClock(ctx), g.checkTimers(ctx))
}

// command is one of QEMU's monitor.
type command struct {
	name      string
	arguments map[string]string
}

// monitor has QEMU's monitor do some things, one after the other.
func (g *Guest) monitor(ctx context.Context, commands ...command) error {
	connection, err := (&net.Dialer{Timeout: monitorTimeout}).DialContext(ctx, "unix", monitorSocket(g.options))
	if err != nil {
		return fmt.Errorf("QEMU's monitor: %w", err)
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(monitorTimeout)); err != nil {
		return fmt.Errorf("QEMU's monitor: %w", err)
	}
	answers, requests := json.NewDecoder(connection), json.NewEncoder(connection)
	for _, c := range append([]command{{"qmp_capabilities", nil}}, commands...) {
		request := map[string]any{"execute": c.name}
		if c.arguments != nil {
			request["arguments"] = c.arguments
		}
		if err := requests.Encode(request); err != nil {
			return fmt.Errorf("QEMU's monitor: %s: %w", c.name, err)
		}
		if err := answered(answers); err != nil {
			return fmt.Errorf("QEMU's monitor: %s: %w", c.name, err)
		}
	}
	return nil
}

// answered reads up to the answer to a command; the greeting and events come between.
func answered(answers *json.Decoder) error {
	for {
		var answer struct {
			Return json.RawMessage `json:"return"`
			Error  *struct {
				Description string `json:"desc"`
			} `json:"error"`
		}
		if err := answers.Decode(&answer); err != nil {
			return err
		}
		switch {
		case answer.Error != nil:
			return errors.New(answer.Error.Description)
		case answer.Return != nil:
			return nil
		}
	}
}
