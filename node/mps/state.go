package mps

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// State is what a control daemon said.
type State struct {
	Servers []Server
	// Shared is the memory that it shares with its clients; without a name if nothing is said of it.
	Shared Shared
}

// Server is a server of a control daemon: there is none before the first client comes.
type Server struct {
	PID     int
	Status  string // "INITIALIZING", "ACTIVE", "FAULT"
	Clients []int  // PIDs
}

const (
	statusActive       = "ACTIVE"
	statusInitializing = "INITIALIZING"
)

// ReadState reads what the daemon of a GPU said last. root is the directory Params.Root. The error says why nothing is known: there is no daemon, it
// did not answer, or its answer is old.
func (p *Params) ReadState(root fs.FS, uuid string, now time.Time) (*State, error) {
	name := path.Join(uuid, stateFile)
	info, err := fs.Stat(root, name)
	if err != nil {
		return nil, fmt.Errorf("no MPS daemon serves %s: %w", uuid, err)
	}
	if age := now.Sub(info.ModTime()); age > p.MaxAge {
		return nil, fmt.Errorf("the MPS daemon of %s last answered %s ago", uuid, age.Round(time.Second))
	}
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, fmt.Errorf("the MPS daemon of %s: %w", uuid, err)
	}
	s, err := ParseState(text)
	if err != nil {
		return nil, fmt.Errorf("the MPS daemon of %s: %w", uuid, err)
	}
	s.Shared.Seen = info.ModTime()
	return s, nil
}

// ParseState reads a file of deploy/mps.yaml: "ready", "memory NAME fresh" (or "used"), then for each server "server PID STATUS" and for each of its clients
// "client SERVER PID".
func ParseState(text []byte) (*State, error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	if !lines.Scan() || lines.Text() != "ready" {
		return nil, fmt.Errorf("%q is no state", text[:min(len(text), 40)])
	}
	s := &State{}
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			return nil, fmt.Errorf("%q is neither a memory, a server nor a client", lines.Text())
		}
		if fields[0] == "memory" {
			if err := s.Shared.parse(fields[1], fields[2]); err != nil {
				return nil, err
			}
			continue
		}
		first, err := strconv.ParseUint(fields[1], 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		switch fields[0] {
		case "server":
			s.Servers = append(s.Servers, Server{PID: int(first), Status: strings.ToUpper(fields[2])})
		case "client":
			pid, err := strconv.ParseUint(fields[2], 10, 31)
			if n := len(s.Servers); err != nil || n == 0 || s.Servers[n-1].PID != int(first) {
				return nil, fmt.Errorf("%q is of no server", lines.Text())
			}
			of := &s.Servers[len(s.Servers)-1]
			of.Clients = append(of.Clients, int(pid))
		default:
			return nil, fmt.Errorf("%q is neither a memory, a server nor a client", lines.Text())
		}
	}
	return s, lines.Err()
}

func (s *Shared) parse(name, use string) error {
	switch {
	case s.Name != "":
		return fmt.Errorf("two memories, %s and %q", s.Name, name)
	case !sharedName.MatchString(name):
		return fmt.Errorf("%q is no name of a memory", name)
	case use != "fresh" && use != "used":
		return fmt.Errorf("the memory %s is %q, neither fresh nor used", name, use)
	}
	s.Name, s.Used = name, use == "used"
	return nil
}

// Clients is how many processes the servers serve.
func (s *State) Clients() (n int) {
	for i := range s.Servers {
		n += len(s.Servers[i].Clients)
	}
	return n
}

// Serves is empty if a new slice may be given, else why not. A server with a fault takes no pod until those that share the fault have ended; and one
// that is full takes no more.
func (s *State) Serves(driver string) string {
	if s.Shared.Name == "" {
		return "the pod hilbert-mps is older than the agent, and does not say which memory the MPS daemon shares with its clients: delete it when no soft slice is in use"
	}
	for i := range s.Servers {
		if status := s.Servers[i].Status; status != statusActive && status != statusInitializing {
			return "the MPS server " + strconv.Itoa(s.Servers[i].PID) + " says " + status
		}
	}
	if n, most := s.Clients(), ClientLimit(driver); n >= most {
		return fmt.Sprintf("the MPS server has %d clients, of at most %d", n, most)
	}
	return ""
}
