package agent

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestBurst: a service that uses less than its limit on the whole and more at times is throttled; with bursts it is less, and its limit can be lowered in place all the same.
func TestBurst(t *testing.T) {
	long(t)
	r := newRig(t)
	r.reconfigure("lending: {enabled: false}", "writeInterval: 1s, kubeletThresholds: File, cpuBurst: {share: 1}, lending: {enabled: true}")
	// The machine is emulated on few and shared processors: how much less is its own.
	const less = 0.8
	// 60 of 300 ms, with a limit of 30 in each 100.
	pod := r.run(r.pod("bursts", asks("300m", "64Mi"), does("steps", "60", "240")))[0]
	cgroup, err := r.ContainerCgroup(t.Context(), pod, container)
	if err != nil {
		t.Fatal(err)
	}
	parent := r.cgroup(pod)
	field := func(file string) string {
		text, err := r.Guest.ReadFile(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(text)
	}
	r.eventually(patience, "it may burst by its whole limit", func() error {
		for _, dir := range []string{cgroup, parent} {
			if got := field(dir + "/cpu.max.burst"); got != "30000" {
				return fmt.Errorf("%s/cpu.max.burst is %s", dir, got)
			}
		}
		return nil
	})
	periods := func() (all, throttled float64) {
		for line := range strings.Lines(field(cgroup + "/cpu.stat")) {
			name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			value, _ := strconv.ParseFloat(text, 64)
			switch name {
			case "nr_periods":
				all = value
			case "nr_throttled":
				throttled = value
			}
		}
		return all, throttled
	}
	share := func() float64 {
		all, throttled := periods()
		time.Sleep(20 * time.Second)
		more, moreThrottled := periods()
		return (moreThrottled - throttled) / max(more-all, 1)
	}
	with := share()
	// A burst that is not wanted any more: the kernel's answer without it.
	usual := "cpuBurst: {share: 1}"
	r.reconfigure("lending: {enabled: false}", "writeInterval: 1s, kubeletThresholds: File, lending: {enabled: true}")
	r.eventually(patience, "it may burst no more", func() error {
		if got := field(cgroup + "/cpu.max.burst"); got != "0" {
			return errors.New(got)
		}
		return nil
	})
	without := share()
	t.Logf("throttled in %.2f of the periods with a burst, %.2f without", with, without)
	if with > without*less {
		t.Errorf("it is throttled in %.2f of its periods with a burst, and in %.2f without; want clearly less", with, without)
	}

	r.reconfigure("lending: {enabled: false}", "writeInterval: 1s, kubeletThresholds: File, "+usual+", lending: {enabled: true}")
	r.eventually(patience, "it may burst again", func() error {
		if got := field(parent + "/cpu.max.burst"); got != "30000" {
			return errors.New(got)
		}
		return nil
	})
	r.resize(pod, "100m") // the kernel would refuse a limit of 10 ms beside a burst of 30
	r.eventually(patience, "its limit is lower", func() error {
		for _, dir := range []string{cgroup, parent} {
			if got := field(dir + "/cpu.max"); got != "10000 100000" {
				return fmt.Errorf("%s/cpu.max is %s", dir, got)
			}
		}
		return nil
	})
	r.remove(pod)
}
