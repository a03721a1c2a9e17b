package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/evict"
)

const (
	// MaxAge is how old a figure may be. The kubelet measures volumes once a minute and is asked once a minute; on a slow disk it takes longer.
	MaxAge = 5 * time.Minute
	// maxAhead is how far the kubelet's clock may be ahead of ours; it is the same one.
	maxAhead = 10 * time.Second
)

// Reading is what the kubelet said at one time. It is immutable.
type Reading struct {
	// images is the file system of images, where it is another than that of pods' volumes and logs.
	images   evict.Disk
	imagesAt time.Time
	pods     map[string]pod // by UID
}

// pod is what is known of one.
type pod struct {
	at           time.Time
	root, images evict.Use
}

// Images is the file system of images and containers' own files, if that is not the one of pods' volumes. No Reading knows nothing.
func (r *Reading) Images(now time.Time) evict.Disk {
	if r == nil || !fresh(r.imagesAt, now) {
		return evict.Disk{}
	}
	return r.images
}

// Pod is what a pod holds of the file system of pods' volumes and logs, and of that of images.
func (r *Reading) Pod(uid string, now time.Time) (root, images evict.Use) {
	if r == nil {
		return root, images
	}
	p, ok := r.pods[uid]
	if !ok || !fresh(p.at, now) {
		return root, images
	}
	return p.root, p.images
}

// Known is of how many pods it is known what they hold.
func (r *Reading) Known(now time.Time) (n int) {
	if r == nil {
		return 0
	}
	for _, p := range r.pods {
		if fresh(p.at, now) {
			n++
		}
	}
	return n
}

func fresh(at, now time.Time) bool {
	age := now.Sub(at)
	return age <= MaxAge && age >= -maxAhead
}

// The parts of the kubelet's summary (k8s.io/kubelet/pkg/apis/stats/v1alpha1) that are read.
type (
	summary struct {
		Node *struct {
			FS      *fileSystem `json:"fs"`
			Runtime *struct {
				ImageFS     *fileSystem `json:"imageFs"`
				ContainerFS *fileSystem `json:"containerFs"`
			} `json:"runtime"`
		} `json:"node"`
		Pods []podSummary `json:"pods"`
	}
	podSummary struct {
		Ref struct {
			UID string `json:"uid"`
		} `json:"podRef"`
		Containers []struct {
			RootFS *fileSystem `json:"rootfs"`
		} `json:"containers"`
		Volumes []struct {
			Time  time.Time `json:"time"`
			Claim *struct{} `json:"pvcRef"`
		} `json:"volume"`
		// Ephemeral is containers' own files, logs, and the volumes that go with the pod; those in memory are not in it.
		Ephemeral *fileSystem `json:"ephemeral-storage"`
	}
	fileSystem struct {
		Time       time.Time `json:"time"`
		Available  *uint64   `json:"availableBytes"`
		Capacity   *uint64   `json:"capacityBytes"`
		Used       *uint64   `json:"usedBytes"`
		Inodes     *uint64   `json:"inodes"`
		InodesFree *uint64   `json:"inodesFree"`
		InodesUsed *uint64   `json:"inodesUsed"`
	}
)

var errNoNode = errors.New("the summary says nothing of the node's file systems")

// Parse reads a summary. One that does not say where containers' own files lie is of no use.
func Parse(body io.Reader) (*Reading, error) {
	var s summary
	if err := json.NewDecoder(body).Decode(&s); err != nil {
		return nil, fmt.Errorf("read the kubelet's summary: %w", err)
	}
	if s.Node == nil || s.Node.FS == nil || s.Node.Runtime == nil || s.Node.Runtime.ImageFS == nil {
		return nil, errNoNode
	}
	root, images, layers := s.Node.FS, s.Node.Runtime.ImageFS, s.Node.Runtime.ContainerFS
	if layers == nil {
		layers = images
	}
	l := layout{onRoot: same(layers, root), onImages: same(layers, images)}
	r := &Reading{pods: make(map[string]pod, len(s.Pods))}
	if !same(images, root) {
		r.images, r.imagesAt = images.disk(), images.Time
	}
	for i := range s.Pods {
		if p, ok := l.pod(&s.Pods[i]); ok {
			r.pods[s.Pods[i].Ref.UID] = p
		}
	}
	return r, nil
}

// layout says where containers' own files lie; where it is all one file system, on root alone.
type layout struct{ onRoot, onImages bool }

// pod takes apart what a pod holds. The kubelet adds up what it has and passes over what it lacks, so a container of which it says nothing
// makes the sum too small.
func (l layout) pod(s *podSummary) (p pod, ok bool) {
	all := s.Ephemeral
	if s.Ref.UID == "" || all == nil {
		return p, false
	}
	var bytes, inodes sum
	for _, c := range s.Containers {
		if c.RootFS == nil {
			return p, false
		}
		bytes.add(c.RootFS.Used)
		inodes.add(c.RootFS.InodesUsed)
	}
	p.at = s.oldest()
	if l.onRoot {
		p.root = evict.Use{Bytes: bytes.among(all.Used), Inodes: inodes.among(all.InodesUsed)}
		return p, true
	}
	p.root = evict.Use{Bytes: bytes.besides(all.Used), Inodes: inodes.besides(all.InodesUsed)}
	if l.onImages {
		p.images = evict.Use{Bytes: bytes.sample(), Inodes: inodes.sample()}
	}
	return p, true
}

// oldest is when the oldest part of what a pod holds was measured. The time of the sum is that of the newest. Claims are not in it.
func (s *podSummary) oldest() time.Time {
	at := s.Ephemeral.Time
	for _, c := range s.Containers {
		if c.RootFS.Time.Before(at) {
			at = c.RootFS.Time
		}
	}
	for _, v := range s.Volumes {
		if v.Claim == nil && v.Time.Before(at) {
			at = v.Time
		}
	}
	return at
}

// sum adds up what containers hold. One number that is missing makes it unknown.
type sum struct {
	value   uint64
	unknown bool
}

func (s *sum) add(v *uint64) {
	if v == nil {
		s.unknown = true
		return
	}
	s.value += *v
}

func (s *sum) sample() advise.Sample {
	return advise.Sample{Value: float64(s.value), Known: !s.unknown}
}

// among is the whole, if all parts are in it.
func (s *sum) among(all *uint64) advise.Sample {
	if s.unknown || all == nil || *all < s.value {
		return advise.Sample{}
	}
	return advise.Known(float64(*all))
}

// besides is the whole without the parts.
func (s *sum) besides(all *uint64) advise.Sample {
	out := s.among(all)
	out.Value -= float64(s.value)
	if !out.Known {
		return advise.Sample{}
	}
	return out
}

func (f *fileSystem) disk() evict.Disk {
	return evict.Disk{BytesTotal: sample(f.Capacity), Bytes: sample(f.Available), InodesTotal: sample(f.Inodes), Inodes: sample(f.InodesFree)}
}

func sample(v *uint64) advise.Sample {
	if v == nil {
		return advise.Sample{}
	}
	return advise.Known(float64(*v))
}

// alike is how much of the capacity two looks at one file system may differ by: they are some seconds apart.
const alike = 0.01

// same says whether two are one file system. The summary names no device; but two that have the same size, as many inodes and the same left are one, or
// get short together.
func same(a, b *fileSystem) bool {
	if a == b {
		return true
	}
	if a.Capacity == nil || b.Capacity == nil || *a.Capacity != *b.Capacity || a.Available == nil || b.Available == nil {
		return false
	}
	if a.Inodes != nil && b.Inodes != nil && *a.Inodes != *b.Inodes {
		return false
	}
	least, most := min(*a.Available, *b.Available), max(*a.Available, *b.Available)
	return float64(most-least) <= alike*float64(*a.Capacity)
}
