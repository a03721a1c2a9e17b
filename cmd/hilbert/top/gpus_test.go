package top

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/reporttest"
	"hilbert.dev/hilbert/topology"
)

func topGPUs(t *testing.T, model string, limit int) *gpusView {
	t.Helper()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	v := newGPUsView(model, limit)
	for _, c := range reporttest.Devices(t) {
		v.add(c, noon, 15*time.Minute)
	}
	v.sum()
	return v
}

const (
	topGPUsText = `
NODE  OWNER    OBSERVED   NUMA  SWITCH  DEVICE        COMPUTE     FREE       MEMORY      FREE    OF         HELD BY  NOTE
n1    hilbert  30s        0     0       GPU 0 A100    aaabbbb...  35%        aaabbbbb..  10Gi    40Gi       a ml/serve-0 25% 10Gi soft, b ml/serve-1 40% 20Gi soft MOVED
                                        GPU 1 A100    ##########  0%         ##########  0Mi     40Gi       ml/train
                                        NIC 0 mlx5_0  aaa.......  75Gbit/s                       100Gbit/s  a ml/train 25Gbit/s vf                 RDMA, 7 of 8 functions free
                          1     1       GPU 2 A100    aaaa......  14%        aaaaa.....  20.5Gi  40Gi       a ml/notebook 42% 19.5Gi hard 3g.20gb  1 of 2 instances free
                                        GPU 3 A100    ..........  100%       ..........  40Gi    40Gi       -                                      closed: Unhealthy
                          -     -       NIC 1 eth1    ..........  800Mbit/s                      800Mbit/s  -
n2    hilbert  30m STALE  -     -       GPU 0 A100    ..........  100%       ..........  40Gi    40Gi       -
n3    none     0s         -     -       GPU 0 T4      ##########  0%         ##########  0Mi     15Gi       ml/old  Contested
n4    kubelet  0s         -     -       GPU 0 T4      ##########  0%         ##########  0Mi     15Gi       ml/old
                                        GPU 1 T4      ..........  100%       ..........  15Gi    15Gi       -
n5    hilbert  0s         -     -       -                                                                     devices: the allocation of ml/lost: GPUs "7", network cards "": the report has no such device
n7    kubelet  0s         -     -       GPU 0 V100    ..........  0%         ..........  0Mi     16Gi       ml/two nvidia.com/mig-1g.5gb MIG-x             DevicePlugin: node.status offers nvidia.com/gpu 4; what the kubelet gave is not read: as of 2026-01-01T11:50:00Z: no answer; held, and not known which: ml/who nvidia.com/gpu "tegra"
                                        GPU 1 V100    ..........  100%       ..........  16Gi    16Gi       -
                                        GPU 2 V100    ##########  0%         ##########  0Mi     16Gi       ml/train
                                        GPU 3 V100    ..........  100%       ..........  16Gi    16Gi       -
Not counted, because what they say of their devices cannot be read: 1 nodes.

MODEL  GPUS  IDLE  SHARED  DIVIDED  HELD  CLOSED  FREE  PODS OF 0.25  PODS OF 0.5  PODS OF 1  PODS OF 2  PODS OF 4  PODS OF 8
A100   5     0     1       1        1     2       0.49  1 (29%)       0 (100%)     0 (100%)   0 (100%)   0 (100%)   0 (100%)
T4     3     1     0       0        1     1       1     0 (100%)      0 (100%)     1 (0%)     0 (100%)   0 (100%)   0 (100%)
V100   4     1     0       0        3     0       1     0 (100%)      0 (100%)     1 (0%)     0 (100%)   0 (100%)   0 (100%)

PODS OF a size in GPUs: how many the free GPUs would hold, and (%) which share of what is free they could not use: the fragmentation.
`
	topT4Text = `
NODE  OWNER    OBSERVED  NUMA  SWITCH  DEVICE    COMPUTE     FREE  MEMORY      FREE  OF    HELD BY  NOTE
n3    none     0s        -     -       GPU 0 T4  ##########  0%    ##########  0Mi   15Gi  ml/old   Contested
and 2 more nodes, which are counted below: name some, or raise --limit.
Not counted, because what they say of their devices cannot be read: 1 nodes.

MODEL  GPUS  IDLE  SHARED  DIVIDED  HELD  CLOSED  FREE  PODS OF 0.25  PODS OF 0.5  PODS OF 1  PODS OF 2  PODS OF 4  PODS OF 8
T4     3     1     0       0        1     1       1     0 (100%)      0 (100%)     1 (0%)     0 (100%)   0 (100%)   0 (100%)

PODS OF a size in GPUs: how many the free GPUs would hold, and (%) which share of what is free they could not use: the fragmentation.
`
)

func TestTopGPUs(t *testing.T) {
	for _, c := range []struct {
		name, model string
		limit       int
		want        string
	}{
		{"all", "", 20, topGPUsText},
		{"the first of a model", "t4", 1, topT4Text},
		{"none", "H100", 20, "No agent reports such GPUs."},
	} {
		var out bytes.Buffer
		if err := topGPUs(t, c.model, c.limit).WriteText(&out); err != nil {
			t.Fatal(err)
		}
		if squeezed(out.String()) != squeezed(c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, out.String(), c.want)
		}
	}
}

// Nothing is counted as free that the scheduler would not give, and what is said is also there as JSON.
func TestTopGPUsJSON(t *testing.T) {
	v := topGPUs(t, "", 1)
	if len(v.Nodes) != 1 || v.More != 5 || v.Unread != 1 {
		t.Errorf("%d nodes and %d more, %d unread", len(v.Nodes), v.More, v.Unread)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var back gpusView
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	a100, t4 := back.Models[0], back.Models[1]
	if a100.GPUs != 5 || a100.Idle != 0 || a100.Shared != 1 || a100.Divided != 1 || a100.Held != 1 || a100.Closed != 2 || a100.FreeMilli != 350+140 {
		t.Errorf("A100: %+v", a100)
	}
	if t4.GPUs != 3 || t4.Idle != 1 || t4.Held != 1 || t4.Closed != 1 || t4.FreeMilli != 1000 || *t4.Sizes[2].Fragmentation != 0 || *t4.Sizes[0].Fragmentation != 1 {
		t.Errorf("T4: %+v", t4)
	}
	gpu := back.Nodes[0].GPUs[0]
	if gpu.FreeMilli != 350 || gpu.FreeMemoryMiB != 10240 || gpu.Part != 350 || gpu.Idle || len(gpu.Holders) != 2 || gpu.Holders[1].Milli != 400 || !gpu.Holders[1].Moved || *gpu.NUMA != 0 {
		t.Errorf("GPU 0: %+v", gpu)
	}
}

func TestSlicedBars(t *testing.T) {
	for _, c := range []struct {
		held []int64
		want string
	}{
		{nil, ".........."},
		{[]int64{1000}, "aaaaaaaaaa"},
		{[]int64{250, 400}, "aaabbbb..."},
		{[]int64{1, 1, 1}, "abc......."},
		{[]int64{990, 10, 10}, "aaaaaaaaaa"},
		{[]int64{0, 500}, "bbbbb....."},
		{[]int64{2000}, "aaaaaaaaaa"},
	} {
		if got := sliced(1000, c.held, []byte("abcdef")); got != c.want {
			t.Errorf("%v: %s, want %s", c.held, got, c.want)
		}
	}
	if got := sliced(0, []int64{5}, []byte("a")); got != ".........." {
		t.Errorf("of nothing: %s", got)
	}
}

// A line names few of many pods.
func TestManyHolders(t *testing.T) {
	row := gpuRow{MemoryMiB: 1000}
	for i := range 30 {
		row.Holders = append(row.Holders, deviceHolder{Namespace: "x", Name: fmt.Sprint("p", i), Milli: 30, MemoryMiB: 30, Isolation: spec.IsolationSoft})
	}
	cells := row.cells()
	if !strings.Contains(cells[6], "d x/p3 3% 30Mi soft and 26 more") || len(cells[1]) != barWidth {
		t.Errorf("%q", cells)
	}
}

// The largest part of a GPU is whole multiprocessors, where parts are soft.
func TestPartIsWholeGrains(t *testing.T) {
	left := newDevicesLeft(&topology.Devices{
		Owner: topology.OwnerHilbert, GPU: []topology.GPU{{Memory: 1000, Grain: 9, Clients: 4, Strengths: topology.StrengthsOf(topology.Soft)}},
	})
	left.view.Commit(&topology.Grant{GPUs: 1, Milli: 252, Memory: 100, Isolation: topology.Soft})
	if row := left.gpu(&spec.GPU{}, nil); row.FreeMilli != 748 || row.Part != 747 || row.FreeMemoryMiB != 900 {
		t.Errorf("%+v", row)
	}
}

// Nodes are drawn as docs/images/gpus.svg has the first of them, and the whole page as testdata/top-gpus.html.
func TestTopGPUsPage(t *testing.T) {
	v := topGPUs(t, "", 20)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var page bytes.Buffer
	if err := v.WriteHTML(&page, noon); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/top-gpus.html", page.String())
	golden(t, "../../../docs/images/gpus.svg", string(v.Nodes[0].draw())+"\n")
}

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// golden holds what was written against a file; -rewrite writes the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || got != string(want) {
		t.Errorf("%s differs (%v); look at it, and write it anew with -rewrite", name, err)
	}
}

// A page draws a bounded part of a large cluster and says what it leaves out. What a report says is text on it, whatever it is.
func TestTopGPUsPageOfManyNodes(t *testing.T) {
	v := newGPUsView("", 2000)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for i := range 2000 {
		c := v1alpha1.CustomNodeResource{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}}
		c.Status.ObservedAt = metav1.NewTime(noon)
		c.Status.Devices = &spec.Devices{Owner: spec.OwnerHilbert}
		for g := range 8 {
			c.Status.Devices.GPUs = append(c.Status.Devices.GPUs, spec.GPU{Index: g, Model: "<script>", MemoryMiB: 40960, Clients: 24, Isolation: []string{spec.IsolationAccounting}})
		}
		for p := range 20 {
			c.Status.Devices.Allocations = append(c.Status.Devices.Allocations, spec.DeviceAllocation{
				Namespace: "a&b", Name: fmt.Sprint("<pod-", p), UID: fmt.Sprint(p), GPUs: fmt.Sprintf("%d:100/1024Mi", p%8),
			})
		}
		v.add(&c, noon, time.Minute)
	}
	v.sum()
	var out bytes.Buffer
	if err := v.WriteHTML(&out, noon); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{"16000 GPUs, and 2000 nodes", "of which 500 are drawn", "Not drawn are 1500 nodes</b>, which are counted: name some.", "and 4 more pods", "a&amp;b/&lt;pod-3"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Count(page, "<figure>") != maxPictures+1 || out.Len() > 20<<20 || strings.Contains(page, "<script>") || strings.Contains(page, "<pod") {
		t.Errorf("%d figures, %d bytes", strings.Count(page, "<figure>"), out.Len())
	}
}

// A GPU that is not what it says is closed, and of a node with two models those that were not asked for are left out.
func TestTopGPUsThatAreDoubtful(t *testing.T) {
	var c v1alpha1.CustomNodeResource
	err := yaml.UnmarshalStrict([]byte(`
metadata: {name: n1}
status:
  observedAt: "2026-01-01T12:00:00Z"
  devices:
    owner: hilbert
    gpus:
      - {index: 0, uuid: GPU-0, model: A100, memoryMiB: 40960}
      - {index: 1, uuid: GPU-1, model: T4, memoryMiB: 15360}
      - {index: 2, uuid: GPU-1, model: T4, memoryMiB: 15360}
    nics: [{index: 0, address: "0000:3d:00.0", name: a, bandwidthMbit: 800}, {index: 1, address: "0000:3d:00.0", name: b, bandwidthMbit: 800}]
`), &c)
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]string{"": "[A100:3] closed [ Doubtful Doubtful]", "t4": "[] closed [Doubtful Doubtful]"} {
		v := newGPUsView(model, 1)
		v.add(&c, c.Status.ObservedAt.Time, time.Minute)
		v.sum()
		var models, closed []string
		for i := range v.Models {
			models = append(models, fmt.Sprint(v.Models[i].Model, ":", v.Models[i].GPUs))
		}
		for i := range v.Nodes[0].GPUs {
			closed = append(closed, v.Nodes[0].GPUs[i].Closed)
		}
		if got := fmt.Sprint(models, " closed ", closed); got != want || v.Nodes[0].NICs[0].Closed != unreadable {
			t.Errorf("%q: %s, want %s; card %+v", model, got, want, v.Nodes[0].NICs[0])
		}
	}
}
