package observe

import "time"

// PeakFiles are Files whose memory.peak can begin anew for one reader.
type PeakFiles interface {
	Files
	// OpenPeak opens memory.peak of a cgroup. The File is a PeakFile if the kernel can begin its peak anew, as Linux can since 6.12; what other readers see stays as it is.
	OpenPeak(name string) (File, error)
}

// PeakFile is a memory.peak of which the peak can begin anew.
type PeakFile interface {
	File
	// Restart has later reads of this File tell the peak since now. Before it is called they tell the peak since the cgroup was made.
	Restart() error
}

// peak is what one reading of memory.peak says. known: the peak was between this reading and the one before.
type peak struct {
	bytes int64
	known bool
}

// peakMark is what the next reading is compared with. The zero value compares it with nothing.
//
// Example: a container once had 900 MiB and has 300 now, and every reading of an old kernel says 900. When that was is not known, so none of them is a peak of today. Only a
// reading of 950 is: the peak rose since the reading before.
type peakMark struct {
	restarted int   // which opening of the file was begun anew at the last reading; 0: none was
	read      bool  // the last reading is known
	bytes     int64 // the last reading
}

// parsePeak reads the bytes of memory.peak into the free place.
func (s *slot) parsePeak(data []byte) Reason {
	source := &s.sources[filePeak]
	bytes, why := parseNumber(data)
	if why != fine {
		return why
	}
	m := &s.mark
	restarted := m.restarted != 0 && m.restarted == source.opened
	s.peak[source.free] = peak{bytes, restarted || m.read && bytes > m.bytes}
	m.read, m.bytes = true, bytes
	return fine
}

// restart begins the peak anew after a reading. It needs the file open: where too many are, or the kernel is too old, peaks are known only where they rise.
func (m *peakMark) restart(s *source) {
	m.restarted = 0
	if file, can := s.file.(PeakFile); can && file.Restart() == nil {
		m.restarted = s.opened
	}
}

// describePeak says what the peak of the last two readings was. What of it was page cache the kernel does not say: it is taken to be the more of what there was at the two
// readings. While the cgroup was at its limit the kernel dropped cache for what was needed, so that nothing can be said.
func (s *slot) describePeak(now time.Duration, l limits, out *CgroupMemory) {
	out.Peak, out.PeakInUse = MissingSample[int64](NotRead), MissingSample[int64](NotRead)
	if !s.peaks {
		return
	}
	source := &s.sources[filePeak]
	v := source.view(now, l)
	last := s.peak[v.last]
	out.Peak = gauge(&v.span, last.bytes, last.known)
	out.PeakInUse = out.Peak
	if out.Peak.state == Missing {
		return
	}
	for _, file := range [...]int{fileStat, fileEvents} {
		if t := &s.sources[file]; v.interval == 0 || t.at != source.at || t.before != source.before || !t.pair {
			out.PeakInUse = MissingSample[int64](Interval)
			return
		}
	}
	events, stat := s.sources[fileEvents].view(now, l), s.sources[fileStat].view(now, l)
	cache, high, most := stat.of(&s.stat, memoryInactiveFile), events.of(&s.events, eventHigh), events.of(&s.events, eventMax)
	switch {
	case !cache.seen || !cache.was || !high.seen || !high.was || !most.seen || !most.was:
		out.PeakInUse = MissingSample[int64](Absent)
	case high.value != high.base || most.value != most.base:
		out.PeakInUse = MissingSample[int64](Limit)
	default:
		out.PeakInUse.value = max(0, last.bytes-max(cache.value, cache.base))
	}
}
