package bench

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// ContainersResult is a whole run.
type ContainersResult struct {
	Protocol ContainersProtocol `json:"protocol"`
	Cases    []ContainersCase   `json:"cases"`
}

// ContainersCase is what was measured of one way to ask.
type ContainersCase struct {
	Name string `json:"name"`
	// The round with the median rate of asking.
	ContainersRound
	Rounds []ContainersRound `json:"rounds"`
}

// ContainersRound is one measurement.
type ContainersRound struct {
	// Ask is from nothing to all containers. Exchange is of those that are asked for anew while as many are given back; a gang has none.
	Ask      ContainersPhase  `json:"ask"`
	Exchange *ContainersPhase `json:"exchange,omitempty"`
	// ControllerPeakBytes is the controller's largest resident set.
	ControllerPeakBytes int64 `json:"controllerPeakBytes"`
}

// ContainersPhase is what so many new containers took.
type ContainersPhase struct {
	Containers          int     `json:"containers"`
	ContainersPerSecond float64 `json:"containersPerSecond"`
	Seconds             float64 `json:"seconds"`
	// From a master's request to the status that tells it of a container.
	P50Millis float64 `json:"p50Millis"`
	P99Millis float64 `json:"p99Millis"`
	// CPU time for each new container: of the role controller, the scheduler, the API server (with etcd, where there is one), and the harness, which is all masters.
	ControllerCPUMicros float64 `json:"controllerCPUMicrosPerContainer"`
	SchedulerCPUMicros  float64 `json:"schedulerCPUMicrosPerContainer"`
	APIServerCPUMicros  float64 `json:"apiServerCPUMicrosPerContainer"`
	HarnessCPUMicros    float64 `json:"harnessCPUMicrosPerContainer"`
	// Requests is what the API server was asked for each new container, by all; ControllerRequests is the controller's part, Statuses the writes of statuses.
	Requests           requests `json:"requestsPerContainer"`
	ControllerRequests float64  `json:"controllerRequestsPerContainer"`
	Statuses           int      `json:"statuses"`
}

const callStatus = "PATCH resourcerequests/status"

// controllerCalls are the calls that nobody makes here but the controller.
var controllerCalls = []string{"POST pods", "DELETE pods", "POST podgroups", callStatus}

func (c ContainersPhase) String() string {
	return fmt.Sprintf("%.0f containers/s, told after %.0f ms (p99 %.0f ms), %.0f µs of CPU and %.2f calls of the controller each", c.ContainersPerSecond, c.P50Millis, c.P99Millis, c.ControllerCPUMicros, c.ControllerRequests)
}

// fill computes the figures of containers that are new between two readings.
func (c *ContainersPhase) fill(masters []*asker, before, after meter, containers int) {
	c.Containers, c.ContainersPerSecond = containers, float64(containers)/c.Seconds
	var told []time.Duration
	for _, m := range masters {
		for _, after := range m.told {
			if after >= 0 {
				told = append(told, after)
			}
		}
	}
	slices.Sort(told)
	quantile := func(q float64) float64 {
		if len(told) == 0 {
			return 0
		}
		return float64(told[int(q*float64(len(told)-1))].Microseconds()) / 1000
	}
	c.P50Millis, c.P99Millis = quantile(0.5), quantile(0.99)
	micros := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(containers) }
	c.ControllerCPUMicros, c.SchedulerCPUMicros = micros(after.processes[0]-before.processes[0]), micros(after.processes[1]-before.processes[1])
	for i := 2; i < len(after.processes); i++ {
		c.APIServerCPUMicros += micros(after.processes[i] - before.processes[i])
	}
	c.HarnessCPUMicros = micros(after.own - before.own)
	c.Requests = after.asked.since(before.asked, containers)
	for _, call := range controllerCalls {
		c.ControllerRequests += c.Requests[call]
	}
	c.Statuses = int(after.asked[callStatus] - before.asked[callStatus])
}

func newContainersCase(name string, rounds []ContainersRound) ContainersCase {
	return ContainersCase{Name: name, ContainersRound: medianRound(rounds, func(r ContainersRound) float64 { return r.Ask.ContainersPerSecond }), Rounds: rounds}
}

// ContainersProtocol says how a result came about.
type ContainersProtocol struct {
	Nodes      int    `json:"nodes"`
	Masters    int    `json:"masters"`
	Containers int    `json:"containersPerMaster"`
	Rate       int    `json:"containersPerSecondAskedFor"`
	Rounds     int    `json:"rounds"`
	Cores      int    `json:"cores"`
	APIServer  string `json:"apiServer"`
	Server     string `json:"server"`
	Processes  string `json:"processes"`
	Clock      string `json:"clock"`
	Latency    string `json:"latency"`
	CPU        string `json:"cpu"`
	Exchange   string `json:"exchange"`
	Local      string `json:"local"`
	Kubelets   string `json:"kubelets"`
}

func newContainersProtocol(o *ContainersOptions) ContainersProtocol {
	p := ContainersProtocol{
		Nodes: o.Nodes, Masters: o.Masters, Containers: o.Containers, Rate: o.Rate, Rounds: o.Rounds, Cores: runtime.NumCPU(), APIServer: o.APIServer,
		Server:    "stand-in: objects in memory, HTTP/2 and TLS on loopback; protobuf, JSON for custom resources; no disk, admission, validation, authorization or garbage collector",
		Processes: "the API server, hilbertd as scheduler, hilbertd as role controller (podsPerSecond: 10000, else its defaults) and the harness with all masters are one operating system process each, started afresh for each round",
		Clock:     "rate = new containers / (the last master was told of its last container - before the first asked); containersPerSecondAskedFor 0: all masters ask at once",
		Latency:   "from a master's request to the first status, seen by its own watch, that has the container Allocated; statuses of one ResourceRequest are written at most once a second",
		CPU:       "user + system time from before the first request to settleSeconds after the last status, over new containers; a case shows the round with the median rate",
		Exchange:  "each master gives half of its containers back and asks for as many, by a GET and a PUT each; it is done when they are Allocated and the others Released",
		Local:     "each master names two nodes and their rack: a container waits a second for the nodes, and another for the rack",
		Kubelets:  "none: pods are Allocated and never Running, and a deletion takes effect at once",
	}
	if o.APIServer == RealAPIServer {
		p.Server = "kube-apiserver " + KubernetesVersion + " with Hilbert's definitions, and etcd without fsync, one process each"
	}
	return p
}

// WriteTable writes the rounds with the median rate for people.
func (r *ContainersResult) WriteTable(w io.Writer) error {
	p := r.Protocol
	asked := "all at once"
	if p.Rate > 0 {
		asked = fmt.Sprintf("%d containers/s", p.Rate)
	}
	fmt.Fprintf(w, "%d masters of %d containers, asked for %s, %d nodes, %s, %d cores, the round with the median rate of %d\n\n", p.Masters, p.Containers, asked, p.Nodes, p.APIServer, p.Cores, p.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tcontainers/s\tp50 ms\tp99 ms\tcontroller µs\tscheduler µs\tAPI server µs\tmasters µs\tcontroller calls\tstatuses\t")
	line := func(name string, c *ContainersPhase) {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%d\t\n", name, c.ContainersPerSecond, c.P50Millis, c.P99Millis,
			c.ControllerCPUMicros, c.SchedulerCPUMicros, c.APIServerCPUMicros, c.HarnessCPUMicros, c.ControllerRequests, c.Statuses)
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		line(c.Name, &c.Ask)
		if c.Exchange != nil {
			line(c.Name+", exchanged", c.Exchange)
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	fmt.Fprintln(w, "\nµs: CPU time for each new container; calls: what the controller asked the API server for each. What all asked for each new container:")
	for i := range r.Cases {
		c := &r.Cases[i]
		if _, err := fmt.Fprintf(w, "%s: %s; controller at most %d MiB\n", c.Name, c.Ask.Requests, c.ControllerPeakBytes>>20); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	return nil
}
