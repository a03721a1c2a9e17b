package advise

import "time"

// logsGap is the longest time whose rate counts at once.
const logsGap = 10 * time.Second

// logPages says how many bytes of log files' pages may be dropped now: while the node or a NUMA node has little free memory, what is lacking, as far as the rate allows. Pressure of
// online pods does not stop that, as it stops reclaim: nobody searches for these pages, and hardly anybody misses them.
func (t *memoryTick) logPages() {
	rate := t.p.Logs.BytesPerSecond
	if rate <= 0 || t.o.DroppingLogs {
		return
	}
	lack := t.shortfall(0, t.o.Total, t.o.Free)
	for z := range t.o.NUMANodes {
		lack = max(lack, t.shortfall(z+1, t.o.NUMANodes[z].Total, t.o.NUMANodes[z].Free))
	}
	since := min(t.now-t.m.LogsAt, logsGap)
	t.m.LogsAt = t.now
	if lack > 0 {
		t.advice.LogPages = min(lack, int64(float64(rate)*since.Seconds()))
	}
}
