package request

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// Level is how near to what an ask names a pod must be.
type Level int8

// The levels, each wider than the one before.
const (
	Nodes Level = iota
	Racks
	Any
)

func (l Level) String() string { return [...]string{"Nodes", "Racks", "Any"}[l] }

// LevelOf reads what String has written; what it does not know is Any.
func LevelOf(text string) Level {
	for l := range Any {
		if l.String() == text {
			return l
		}
	}
	return Any
}

// Relax says whether an ask names nodes or racks, and for how long a pod waits for them.
type Relax struct {
	Named   bool
	Relaxes bool // false: it waits for ever
	After   time.Duration
}

// Key names a request.
type Key struct{ Namespace, Name string }

func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Request is what is asked for, and what the API server has of its status.
type Request struct {
	Key
	UID        string
	Generation int64
	Created    time.Time
	Deleting   bool
	Gang       bool
	// Problem says why it cannot be read. Then its pods are left as they are.
	Problem string
	Asks    []Ask
	// Status is where a new leader goes on from.
	Status []Slot
	// Pods are those that it controls, by name.
	Pods map[string]*Pod
}

// Ask is one ask.
type Ask struct {
	Name    string
	Count   int
	Release []int
	Retries int
	// Relax is by Nodes and Racks.
	Relax [Any]Relax
}

// first is the level that a new pod of the ask has.
func (a *Ask) first() Level { return a.next(-1) }

// next is the level after one.
func (a *Ask) next(l Level) Level {
	for l++; l < Any && !a.Relax[l].Named; l++ {
	}
	return l
}

// Phase is how far a pod is.
type Phase int8

// The phases of pods.
const (
	Pending Phase = iota
	Running
	Succeeded
	Failed
)

// Pod is a pod of a request.
type Pod struct {
	Name, UID, Node string
	// Version is what it was seen at, so that it is deleted only as it is.
	Version string
	Created time.Time
	Level   Level
	Phase   Phase
	// Deleting pods go, and Gone ones went as they are shown. Who had a node is shown once after it went.
	Deleting, Gone bool
	// Disrupted pods were evicted or preempted: the failure is none of theirs.
	Disrupted bool
	// Reason and Message say why it failed.
	Reason, Message string
}

// View is what is to be decided upon: requests that something has changed for, or whose time has come.
type View struct {
	Requests []Request
	// Waiting are the pods without a node of all requests, by namespace.
	Waiting map[string]int
	// Room is how many pods may be made by this decision.
	Room int
}

// slotID is an ask and an index.
type slotID struct {
	ask   string
	index int
}

// NameOf is the name of a slot's pod. It begins like the request's, for people, and is of one request alone.
func NameOf(r *Request, ask string, index int) string { return prefixOf(r, ask) + strconv.Itoa(index) }

func prefixOf(r *Request, ask string) string { return beginOf(r.Name, r.UID, ask) + "-" }

// GroupOf is the name of a gang's PodGroup.
func GroupOf(name, uid string) string { return beginOf(name, uid, "") }

// beginOf is a part of a request's name, and a digest. No part of a name in DNS begins with a hyphen, so the former must not end with a dot.
func beginOf(name, uid, ask string) string {
	const readable, digest = 36, 10
	return strings.TrimRight(name[:min(len(name), readable)], ".") + "-" + sumOf(uid, ask)[:digest]
}

func sumOf(uid, ask string) string {
	sum := sha256.Sum256([]byte(uid + "/" + ask))
	return hex.EncodeToString(sum[:])
}
