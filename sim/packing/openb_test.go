package packing

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/sim/trace"
)

// BenchmarkOpenB is the published experiment under our policy: an iteration is one pod, cpu-ns/pod what deciding on it takes, without the check of
// refusals.
func BenchmarkOpenB(b *testing.B) {
	folder := filepath.Join(os.Getenv("HILBERT_TRACES"), "openb")
	for _, list := range []string{"default", "cpu050", "gpushare40", "multigpu20", "gpuspec33"} {
		b.Run(list, func(b *testing.B) {
			w, err := trace.LoadOpenB(filepath.Join(folder, "openb_node_list_gpu_node.csv"), filepath.Join(folder, "openb_pod_list_"+list+".csv"))
			if err != nil {
				b.Skipf("no traces: set HILBERT_TRACES to the folder that holds openb/: %v", err)
			}
			a, err := NewArrivals(w, Ratio, FirstSeed)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			busy, played := 0.0, 0
			for played < b.N {
				some := *a
				some.pods = some.pods[:min(len(some.pods), b.N-played)]
				out, err := some.Run(Options{Policy: PolicyHilbert, Params: fragment.Defaults(), Wall: processTime})
				if err != nil {
					b.Fatal(err)
				}
				played += out.Pods
				busy += float64(out.Pods) / out.PodsPerSecond
			}
			b.ReportMetric(1e9*busy/float64(played), "cpu-ns/pod")
			b.ReportMetric(float64(played)/busy, "pods/s")
		})
	}
}

// processTime is the CPU time that the process has used: what is left of a busy machine does not change it much.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
