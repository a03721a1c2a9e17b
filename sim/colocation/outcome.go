package colocation

import "time"

// Outcome is what one variant came to. Percentages are of all CPUs of the fleet over the time that counts, unless said otherwise.
type Outcome struct {
	Name  string `json:"name"`
	Mode  Mode   `json:"mode"`
	Nodes int    `json:"nodes"`

	UtilisationPercent float64 `json:"utilisationPercent"`
	OnlinePercent      float64 `json:"onlinePercent"`
	OfflinePercent     float64 `json:"offlinePercent"`
	// LentPercent is the cores of reclaimed pools, busy or not.
	LentPercent float64 `json:"lentPercent"`
	// SLOMissPercent is of minutes times services on nodes: those in which more than 1 % of the requests were late. SecondMissPercent is the
	// same by seconds.
	SLOMissPercent    float64 `json:"sloMissPercent"`
	SecondMissPercent float64 `json:"secondMissPercent"`
	// ShedPercent is of services' requests: those given up because too many waited.
	ShedPercent float64 `json:"shedPercent"`

	Evictions       int `json:"evictions"`
	RepeatEvictions int `json:"repeatEvictions"` // of a job that was evicted less than ten minutes before
	UrgentEvictions int `json:"urgentEvictions"`
	LocalStops      int `json:"localStops"`
	OOMKills        int `json:"oomKills"`
	Placements      int `json:"placements"`
	JobsDone        int `json:"jobsDone"`
	// OfflineCPUHours is the work of jobs, as an idle machine would need for it; LostPercent of it was lost by evictions.
	OfflineCPUHours        float64 `json:"offlineCpuHours"`
	LostPercent            float64 `json:"lostPercent"`
	StallSeconds           int64   `json:"stallSeconds"`
	PoolChangesPerNodeHour float64 `json:"poolChangesPerNodeHour"`
	Digest                 string  `json:"digest"`
	// Series are minutes that count.
	Series []Point `json:"series,omitempty"`

	lost        float64
	localStops  int
	poolChanges int
}

// Point is a minute of the fleet: percent of all CPUs, percent of the services that missed, evictions.
type Point struct {
	Minute    int     `json:"minute"`
	Online    float64 `json:"online"`
	Offline   float64 `json:"offline"`
	Lent      float64 `json:"lent"`
	Missed    float64 `json:"missed"`
	Evictions int     `json:"evictions"`
}

// minute sums up the minute under way.
type minute struct {
	online, offline float64
	evictions       int
}

// closeMinute ends a minute; those of the warm-up are forgotten.
func (r *run) closeMinute() {
	missed, lent := 0, 0
	for _, m := range r.machines {
		missed += m.node.CloseWindow()
		for z := range r.o.Machine.NUMANodes {
			lent += m.node.Lent(z)
		}
	}
	at := time.Duration(r.now) * time.Second
	if r.o.Progress != nil {
		r.o.Progress(r.v.Name, at, r.o.Length)
	}
	all := float64(r.o.Machine.CPUs() * r.o.Nodes)
	if at <= r.o.WarmUp {
		for _, m := range r.machines {
			m.node.Forget()
		}
		r.out = Outcome{Name: r.out.Name, Mode: r.out.Mode, Nodes: r.out.Nodes}
	} else {
		r.out.Series = append(r.out.Series, Point{
			Minute: int(at/time.Minute) - 1, Online: 100 * r.minute.online / all / 60, Offline: 100 * r.minute.offline / all / 60,
			Lent: 100 * float64(lent) / all, Missed: 100 * float64(missed) / float64(servicesPerNode*r.o.Nodes), Evictions: r.minute.evictions,
		})
	}
	r.minute = minute{}
}
