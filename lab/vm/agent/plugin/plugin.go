// Command plugin is a device plugin for the guest with no devices behind it. It offers the kubelet devices under the names that it is given, and
// tells each container which of them it was allocated, in the variable PLUGIN_DEVICES. A test compares that with what the agent reports.
//
//	plugin RESOURCE ID...
//
// It registers again when the kubelet restarts. Its offer never changes.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	socket = "plugin.sock"
	// look is how often it is looked whether the kubelet has removed the socket, which it does when it starts.
	look = time.Second
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: plugin RESOURCE ID...")
		os.Exit(2)
	}
	for {
		if err := offer(context.Background(), os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "plugin:", err)
		}
		time.Sleep(look)
	}
}

// offer serves and registers, and returns when the kubelet has removed the socket.
func offer(ctx context.Context, resource string, ids []string) error {
	path := filepath.Join(api.DevicePluginPath, socket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, &plugin{ids: ids})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer server.Stop()
	if err := register(ctx, resource); err != nil {
		return err
	}
	fmt.Println("registered")
	for {
		select {
		case err := <-ended:
			return err
		case <-time.After(look):
		}
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("the kubelet has started anew: %w", err)
		}
	}
}

func register(ctx context.Context, resource string) error {
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{Version: api.Version, Endpoint: socket, ResourceName: resource})
	return err
}

type plugin struct {
	api.UnimplementedDevicePluginServer

	ids []string
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	all := &api.ListAndWatchResponse{}
	for _, id := range p.ids {
		all.Devices = append(all.Devices, &api.Device{ID: id, Health: api.Healthy})
	}
	if err := stream.Send(all); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	out := &api.AllocateResponse{}
	for _, c := range request.ContainerRequests {
		out.ContainerResponses = append(out.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"PLUGIN_DEVICES": strings.Join(c.DevicesIds, ",")},
		})
	}
	return out, nil
}
