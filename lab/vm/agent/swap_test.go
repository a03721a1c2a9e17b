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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

// swapFile is the guest's swap while a test wants some.
const swapFile = "/root/swap"

// TestSwap: a reclaimed pod's memory goes to swap by steps, as far as its share and its floor allow; and what lets it swap is taken back when it is not wanted.
func TestSwap(t *testing.T) {
	long(t)
	r := newRig(t)
	const mib, amount, holds, share, step, floor = 1 << 20, 256, 160, 0.25, 16, 96
	shell := func(ctx context.Context, command string) {
		if said, err := r.Guest.Shell(ctx, command); err != nil {
			t.Errorf("%s: %v\n%s", command, err, said)
		}
	}
	shell(t.Context(), "dd if=/dev/zero of="+swapFile+" bs=1048576 count=256 && mkswap "+swapFile+" && swapon "+swapFile)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		shell(ctx, "swapoff "+swapFile+" && rm "+swapFile)
	})
	memory := fmt.Sprintf("memory: {swap: {share: %g, step: %d, interval: 4s, floor: %d}, offload: {share: 0.05, interval: 2s}}", share, step*mib, floor*mib)
	const usual = "lending: {enabled: false}"
	lends := "writeInterval: 1s, kubeletThresholds: File, lending: {enabled: true, refreshInterval: 10s}"
	r.reconfigure(usual, lends+", "+memory)
	batch := r.create(r.pod("batch", level(spec.QoSReclaimed), reclaiming("1000", fmt.Sprintf("%dMi", amount)), does("hold", strconv.Itoa(holds))))
	r.eventually(patience+3*time.Minute, "the reclaimed pod is bound and runs", func() error {
		p, err := r.Client.CoreV1().Pods(batch.Namespace).Get(t.Context(), batch.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if batch = p; p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %v", p.Status.Phase, p.Status.Conditions)
		}
		return nil
	})
	cgroup, err := r.PodCgroup(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	field := func(file string) string {
		text, err := r.Guest.Field(t.Context(), cgroup+"/"+file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	number := func(file string) int64 {
		n, err := strconv.ParseInt(field(file), 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		return n / mib
	}
	var most int64
	took := r.eventually(patience, "a part of it is in swap", func() error {
		swap := number("memory.swap.current")
		if text := field("memory.swap.max"); text != "max" { // the bound is read after what it bounds: only too high is wrong
			if bound := number("memory.swap.max"); bound > swap+2*step {
				t.Errorf("it has %d MiB in swap and may have %d, want at most a step of %d MiB more", swap, bound, step)
			}
		}
		if most = max(most, swap); swap < 3*step {
			return fmt.Errorf("%d MiB are", swap)
		}
		return nil
	})
	t.Logf("%d MiB of %d were in swap %.0f s after it ran; memory.current %d MiB", most, holds, took.Seconds(), number("memory.current"))
	r.always(20*time.Second, "it keeps its floor in memory, and no more than its share in swap", func() error {
		swap, memory := number("memory.swap.current"), number("memory.current")
		if most = max(most, swap); swap > amount*share || memory < floor-step {
			return fmt.Errorf("%d MiB in swap, %d in memory", swap, memory)
		}
		return nil
	})
	container, err := r.ContainerCgroup(t.Context(), batch, container)
	if err != nil {
		t.Fatal(err)
	}
	r.reconfigure(usual, lends)
	r.eventually(patience, "it may swap as runtime and kubelet have it", func() error {
		its, err := r.Guest.Field(t.Context(), container+"/memory.swap.max")
		if all := field("memory.swap.max"); err == nil && (all != "max" || its != "0") {
			err = errors.New("memory.swap.max is " + strings.Join([]string{all, its}, " and "))
		}
		return err
	})
	r.remove(batch)
}
