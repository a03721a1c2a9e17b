package scrape

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"hilbert.dev/hilbert/api/spec"
)

// text is the lines of one metric, and what they were said to be.
type text struct {
	lines   bytes.Buffer
	buckets bool // some line is a bucket
	counter bool // its type is counter
	over    bool // there are too many lines
}

// series is what the lines say, over all series that have the labels: a value, or the counts of a histogram by the upper bounds of its buckets,
// cumulative, the last of which is infinite.
type series struct {
	value  float64
	bounds []float64
	counts []float64
}

// filter keeps the lines of the metrics. The whole answer never lies in memory.
func filter(from io.Reader, metrics []*spec.ProfileMetric, p *Params) ([]text, error) {
	out := make([]text, len(metrics))
	lines := bufio.NewReaderSize(&bounded{from, p.MaxBody}, p.MaxLine)
	for {
		line, err := lines.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		for i, m := range metrics {
			out[i].take(line, m, long, p.MaxKept)
		}
		for long && errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// take keeps a line if it is of the metric, without its timestamp and exemplar.
func (t *text) take(line []byte, m *spec.ProfileMetric, long bool, most int) {
	if kind, ok := bytes.CutPrefix(line, []byte("# TYPE "+m.Name+" ")); ok {
		t.counter = string(bytes.TrimSpace(kind)) == "counter"
		return
	}
	rest, ok := bytes.CutPrefix(line, []byte(m.Name))
	if !ok {
		return
	}
	bucket := false
	if m.Quantile > 0 {
		if after, is := bytes.CutPrefix(rest, []byte("_bucket")); is {
			rest, bucket = after, true
		} else if after, is := bytes.CutPrefix(rest, []byte("_count")); is {
			rest = after
		}
	}
	if len(rest) == 0 || !bytes.ContainsRune([]byte("{ \t"), rune(rest[0])) {
		return // another metric, whose name only begins so
	}
	bare, ok := withoutTail(line)
	if !ok || long || t.lines.Len()+len(bare) >= most {
		t.over = true
		return
	}
	t.buckets = t.buckets || bucket
	t.lines.Write(bare)
	t.lines.WriteByte('\n')
}

// withoutTail cuts a line after its value.
func withoutTail(line []byte) ([]byte, bool) {
	end := 0
	if open := bytes.IndexAny(line, "{ \t"); open >= 0 && line[open] == '{' {
		quoted := false
		for end = open + 1; end < len(line) && (quoted || line[end] != '}'); end++ {
			switch line[end] {
			case '\\':
				end++
			case '"':
				quoted = !quoted
			}
		}
		if end++; end >= len(line) {
			return nil, false
		}
	} else {
		end = max(open, 0)
	}
	value := bytes.TrimLeft(line[end:], " \t")
	if n := bytes.IndexAny(value, " \t\r\n"); n >= 0 {
		value = value[:n]
	}
	if len(value) == 0 {
		return nil, false
	}
	return slices.Concat(line[:end], []byte(" "), value), true
}

// read parses the lines. Without a series the outcome says why.
func (t *text) read(m *spec.ProfileMetric) (*series, Outcome) {
	switch {
	case t.over:
		return nil, TooLarge
	case t.lines.Len() == 0:
		return nil, Absent
	case t.counter: // it only grows: its value says nothing of now
		return nil, Malformed
	}
	kind := "gauge"
	switch {
	case t.buckets:
		kind = "histogram"
	case m.Quantile > 0:
		kind = "summary"
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.MultiReader(strings.NewReader("# TYPE "+m.Name+" "+kind+"\n"), &t.lines))
	if err != nil {
		return nil, Malformed
	}
	out, metrics := &series{value: math.Inf(-1)}, 0
	for _, metric := range families[m.Name].GetMetric() {
		if !has(metric, m.Labels) {
			continue
		}
		if !out.add(metric, m.Quantile) {
			return nil, Malformed
		}
		metrics++
	}
	if metrics == 0 {
		return nil, Absent
	}
	if t.buckets != (out.bounds != nil) || out.bounds == nil && math.IsInf(out.value, 0) {
		return nil, Absent // a summary without the quantile, or one that has seen nothing
	}
	return out, Read
}

func has(metric *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, l := range metric.GetLabel() {
		if value, ok := labels[l.GetName()]; ok && value == l.GetValue() {
			found++
		}
	}
	return found == len(labels)
}

// add takes one series in: the greatest of values, the sum of histograms. False: it is not what was asked for.
func (s *series) add(metric *dto.Metric, quantile float64) bool {
	switch {
	case metric.GetHistogram() != nil:
		return s.addHistogram(metric.GetHistogram())
	case metric.GetSummary() != nil:
		const close = 1e-9
		for _, q := range metric.GetSummary().GetQuantile() {
			if v := q.GetValue(); math.Abs(q.GetQuantile()-quantile) < close && !math.IsNaN(v) { // NaN: it has seen nothing lately
				s.value = max(s.value, v)
			}
		}
		return true
	case metric.GetGauge() != nil:
		v := metric.GetGauge().GetValue()
		s.value = max(s.value, v)
		return !math.IsNaN(v)
	}
	return false
}

// addHistogram adds up histograms with the same buckets.
func (s *series) addHistogram(h *dto.Histogram) bool {
	var bounds, counts []float64
	for _, b := range h.GetBucket() {
		bounds = append(bounds, b.GetUpperBound())
		counts = append(counts, max(float64(b.GetCumulativeCount()), b.GetCumulativeCountFloat()))
	}
	if n := len(bounds); n == 0 || !math.IsInf(bounds[n-1], 1) {
		bounds = append(bounds, math.Inf(1))
		counts = append(counts, max(float64(h.GetSampleCount()), h.GetSampleCountFloat()))
	}
	if !slices.IsSorted(bounds) || !slices.IsSorted(counts) || s.bounds != nil && !slices.Equal(s.bounds, bounds) {
		return false
	}
	if s.bounds == nil {
		s.bounds, s.counts = bounds, counts
		return true
	}
	for i := range counts {
		s.counts[i] += counts[i]
	}
	return true
}
