package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"hilbert.dev/hilbert/topology"
)

const (
	// podResourcesList is the method of k8s.io/kubelet/pkg/apis/podresources/v1.
	podResourcesList = "http://kubelet/v1.PodResourcesLister/List"
	// maxPodResources bounds the kubelet's answer, in bytes: some 100 for each pod and device.
	maxPodResources = 16 << 20
	// grpcHead is the length of what stands before a message: whether it is compressed, and its length.
	grpcHead = 5
)

// PodAllocation is what the kubelet gave a pod for itself.
type PodAllocation struct {
	Namespace, Name string
	// CPUs are all that its CPU manager gave; Containers those of each container that has some.
	CPUs       topology.CPUSet
	Containers map[string]topology.CPUSet
	// Devices are those of device plugins, each once.
	Devices []PluginDevice
}

// PluginDevice is a device by the name of the resource that a device plugin offers, and by the plugin's own name for it.
type PluginDevice struct{ Resource, ID string }

// PodResources asks the kubelet through its PodResources socket, a gRPC service of which one call without arguments is needed: that is an
// HTTP/2 request with a message in a frame, and three nested lists to read.
type PodResources struct{ client *http.Client }

// NewPodResources makes a client for a socket, by default pod-resources/kubelet.sock in the kubelet's directory. timeout bounds a request.
func NewPodResources(socket string, timeout time.Duration) *PodResources {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &PodResources{&http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Protocols:          protocols,
			DisableCompression: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			},
		},
	}}
}

// Close gives the connection back.
func (p *PodResources) Close() { p.client.CloseIdleConnections() }

// List returns the pods that the kubelet knows, those that it gave nothing too, by namespace and name. An error says nothing about any, and of a pod
// that is not listed nothing is known: a kubelet that has just started lists those that it has heard of so far.
func (p *PodResources) List(ctx context.Context) ([]PodAllocation, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, podResourcesList, bytes.NewReader(make([]byte, grpcHead)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	response, err := p.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet what it gave to pods: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	frame, err := io.ReadAll(io.LimitReader(response.Body, maxPodResources+1))
	if err == nil {
		err = grpcStatus(response, len(frame))
	}
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet what it gave to pods: %w", err)
	}
	pods, err := parsePodResources(frame)
	if err != nil {
		return nil, fmt.Errorf("the kubelet's answer about what it gave to pods: %w", err)
	}
	return pods, nil
}

// grpcStatus reads the status, which stands in the trailer, or in the header of an answer without a message.
func grpcStatus(r *http.Response, length int) error {
	if length > maxPodResources {
		return fmt.Errorf("an answer of more than %d bytes", maxPodResources)
	}
	code, message := r.Trailer.Get("Grpc-Status"), r.Trailer.Get("Grpc-Message")
	if code == "" {
		code, message = r.Header.Get("Grpc-Status"), r.Header.Get("Grpc-Message")
	}
	switch {
	case r.StatusCode != http.StatusOK:
		return fmt.Errorf("HTTP %s", r.Status)
	case code == "":
		return errors.New("the answer breaks off")
	case code != "0":
		return fmt.Errorf("gRPC status %s: %s", strconv.Quote(code), message)
	}
	return nil
}

var errWire = errors.New("malformed protobuf")

// parsePodResources reads a frame with a ListPodResourcesResponse.
func parsePodResources(frame []byte) (out []PodAllocation, err error) {
	if len(frame) < grpcHead || frame[0] != 0 || int(binary.BigEndian.Uint32(frame[1:])) != len(frame)-grpcHead {
		return nil, errors.New("malformed frame")
	}
	err = eachField(frame[grpcHead:], func(number, _ uint64, data []byte) error {
		if number != 1 || data == nil {
			return nil
		}
		pod, err := parsePodGiven(data)
		out = append(out, pod)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b PodAllocation) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// parsePodGiven reads a PodResources: name 1, namespace 2, containers 3, cpu_ids 4.
func parsePodGiven(data []byte) (pod PodAllocation, err error) {
	pod.Containers = make(map[string]topology.CPUSet)
	err = eachField(data, func(number, value uint64, data []byte) error {
		switch number {
		case 1:
			pod.Name = string(data)
		case 2:
			pod.Namespace = string(data)
		case 3:
			return pod.addContainer(data)
		case 4:
			return addCPUs(&pod.CPUs, value, data)
		}
		return nil
	})
	slices.SortFunc(pod.Devices, func(a, b PluginDevice) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.ID, b.ID))
	})
	pod.Devices = slices.Compact(pod.Devices)
	return pod, err
}

// addContainer reads a ContainerResources: name 1, devices 2, cpu_ids 3.
func (p *PodAllocation) addContainer(data []byte) error {
	var name string
	var set topology.CPUSet
	err := eachField(data, func(number, value uint64, data []byte) error {
		switch number {
		case 1:
			name = string(data)
		case 2:
			return p.addDevices(data)
		case 3:
			return addCPUs(&set, value, data)
		}
		return nil
	})
	if err == nil && !set.IsEmpty() {
		p.Containers[name] = p.Containers[name].Union(set)
		p.CPUs = p.CPUs.Union(set)
	}
	return err
}

// addDevices reads a ContainerDevices: resource_name 1, device_ids 2. The name may stand behind them.
func (p *PodAllocation) addDevices(data []byte) error {
	first, resource := len(p.Devices), ""
	err := eachField(data, func(number, _ uint64, data []byte) error {
		switch number {
		case 1:
			resource = string(data)
		case 2:
			p.Devices = append(p.Devices, PluginDevice{ID: string(data)})
		}
		return nil
	})
	for i := first; i < len(p.Devices); i++ {
		p.Devices[i].Resource = resource
	}
	return err
}

// addCPUs reads CPU numbers: packed, or one of them.
func addCPUs(set *topology.CPUSet, value uint64, packed []byte) error {
	if packed == nil {
		return addCPU(set, value)
	}
	for len(packed) > 0 {
		v, n := binary.Uvarint(packed)
		if n <= 0 {
			return errWire
		}
		if err := addCPU(set, v); err != nil {
			return err
		}
		packed = packed[n:]
	}
	return nil
}

func addCPU(set *topology.CPUSet, id uint64) error {
	if id >= topology.MaxCPUs {
		return fmt.Errorf("CPU %d: want less than %d", id, topology.MaxCPUs)
	}
	set.Add(int(id))
	return nil
}

// eachField calls visit for the fields of a message: with a value, or with data that is not nil. Those of a fixed width are skipped: none of
// ours is.
func eachField(message []byte, visit func(number, value uint64, data []byte) error) error {
	const varint, fixed64, bytesType, fixed32 = 0, 1, 2, 5
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return errWire
		}
		message = message[n:]
		var value uint64
		var data []byte
		skip := 0
		switch tag & 7 {
		case varint:
			if value, skip = binary.Uvarint(message); skip <= 0 {
				return errWire
			}
		case bytesType:
			length, n := binary.Uvarint(message)
			if n <= 0 || length > uint64(len(message)-n) {
				return errWire
			}
			skip = n + int(length)
			data = message[n:skip:skip]
		case fixed64:
			skip = 8
		case fixed32:
			skip = 4
		default:
			return errWire
		}
		if skip > len(message) {
			return errWire
		}
		if t := tag & 7; t == varint || t == bytesType {
			if err := visit(tag>>3, value, data); err != nil {
				return err
			}
		}
		message = message[skip:]
	}
	return nil
}
