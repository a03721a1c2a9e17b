package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/spec"
)

const (
	// slowUplink is an uplink of 4 Mbit/s, which is less than the floor of what reclaimed pods may send, so that they fill it though they are limited. farAway is reached by it.
	slowUplink, slowUplinkMbps, farAway = "up0", 4, "10.77.0.9:9"
	floorOfSending                      = 1 << 20
)

// TestUplinkEviction: reclaimed pods have the floor alone of what they may send, and fill a slow uplink all the same. One of the two that send most is evicted, with the reason in its event; the
// other stays, for the bound is one in an hour; and so do the reclaimed pod that sends little and the online pod.
func TestUplinkEviction(t *testing.T) {
	long(t)
	r := newRig(t)
	r.slowUplink()
	r.reconfigure("lending: {enabled: false}", fmt.Sprintf(`writeInterval: 1s, kubeletThresholds: File, `+offersSoon+`,
  lending: {refreshInterval: 10s, network: {enabled: true, uplinks: ["%s=%d"]}},
  eviction: {network: {for: 15s, perHour: 1}}`, slowUplink, slowUplinkMbps))
	sends := func(kibibytes int) trait { return does("send", farAway, strconv.Itoa(kibibytes)) }
	pods := []*corev1.Pod{
		r.create(r.pod("first", level(spec.QoSReclaimed), reclaiming("100", "32Mi"), sends(768), once)),
		r.create(r.pod("second", level(spec.QoSReclaimed), reclaiming("100", "32Mi"), sends(768), once)),
		r.create(r.pod("little", level(spec.QoSReclaimed), reclaiming("100", "32Mi"), sends(16), once)),
		r.create(r.pod("online", requests("1"), sends(16), once)),
	}
	for i, p := range pods {
		pods[i] = r.awaitRunning(p)
	}
	r.eventually(patience, "they are limited to the floor", func() error {
		if ceiling := r.metric(`hilbert_agent_egress_ceiling_bytes_per_second{uplink="` + slowUplink + `"}`); ceiling != floorOfSending {
			return fmt.Errorf("the ceiling is %.0f bytes/s", ceiling)
		}
		return nil
	})
	t.Logf("the uplink sends %.0f bytes/s, of 1.6 million that are asked for", r.sentBy(slowUplink))
	var gone *corev1.Pod
	took := r.eventually(patience, "one that sends most is evicted", func() error {
		for _, p := range pods {
			if r.leaves(p) {
				gone = p
				return nil
			}
		}
		return errors.New("nobody is")
	})
	t.Logf("%s was evicted after %.0f s", gone.Name, took.Seconds())
	if gone != pods[0] && gone != pods[1] {
		t.Errorf("%s sends little", gone.Name)
	}
	r.told(gone, spec.ReasonEvictedForPressure, slowUplink, "at the floor")
	const held = `hilbert_agent_evictions_held_back_total{detector="NetworkPressure"}`
	r.eventually(patience, "another one was due, and the bound kept it", func() error {
		if r.metric(held) == 0 {
			return errors.New("none was held back")
		}
		return nil
	})
	r.always(30*time.Second, "the others stay", func() error {
		for _, p := range pods {
			if p != gone && r.leaves(p) {
				return fmt.Errorf("%s goes", p.Name)
			}
		}
		return nil
	})
}

// slowUplink makes an interface that leads nowhere, by which the guest reaches farAway, until the test ends. It asks nobody for an address, so that packets leave.
func (r *rig) slowUplink() {
	r.t.Helper()
	const script = `ip link add %[1]s type veth && ip link set %[1]s arp off && ip addr add 10.77.0.1/24 dev %[1]s || exit 1
for d in /sys/class/net/*; do [ $(cat $d/ifindex) != $(cat /sys/class/net/%[1]s/iflink) ] || ip link set ${d##*/} up; done
ip link set %[1]s up`
	if _, err := r.Guest.Shell(r.t.Context(), fmt.Sprintf(script, slowUplink)); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := r.Guest.Shell(ctx, "ip link del "+slowUplink); err != nil {
			r.t.Error(err)
		}
	})
}

// sentBy is what an interface sends, in bytes per second, by the guest's kernel and its clock.
func (r *rig) sentBy(name string) float64 {
	r.t.Helper()
	file := "/sys/class/net/" + name + "/statistics/tx_bytes"
	text, err := r.Guest.Shell(r.t.Context(), "cut -d' ' -f1 /proc/uptime; cat "+file+"; sleep 5; cut -d' ' -f1 /proc/uptime; cat "+file)
	if err != nil {
		r.t.Fatal(err)
	}
	var numbers [4]float64
	for i, field := range strings.Fields(text) {
		if numbers[i%len(numbers)], err = strconv.ParseFloat(field, 64); err != nil {
			r.t.Fatal(err)
		}
	}
	return (numbers[3] - numbers[1]) / (numbers[2] - numbers[0])
}
