package diff

import (
	"fmt"
	"runtime/debug"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"hilbert.dev/hilbert/cluster/facts"
)

// Player plays cases on both schedulers. It must not be used by two goroutines at once.
type Player struct {
	upstream map[string]*upstream // by profile
	theirs   Verdict
	ours     verdict
	// watch, if set, sees every judgement on which the two agree.
	watch func(u *upstream, pod *corev1.Pod, theirs *Verdict)
	// contests counts what of preemption was compared, in all cases.
	contests Contests
	// object, if set, may find more differences; tests plant some.
	object func(u *upstream, pod *corev1.Pod) []Difference
}

// NewPlayer returns a Player.
func NewPlayer() *Player { return &Player{upstream: make(map[string]*upstream)} }

// Play plays a case up to the first judgement on which the schedulers differ; the failure is nil when there is none. An error means that
// upstream could not be asked.
func (p *Player) Play(c *Case) (failure *Failure, err error) {
	profile, ok := profileNamed(c.Profile)
	if !ok {
		return nil, fmt.Errorf("no profile is called %q", c.Profile)
	}
	u := p.upstream[c.Profile]
	if u == nil {
		if u, err = newUpstream(profile); err != nil {
			return nil, err
		}
		p.upstream[c.Profile] = u
	} else if err := u.reset(); err != nil {
		return nil, err
	}
	o, err := newOurs(c, profile, &u.weights)
	if err != nil {
		return nil, err
	}
	at := 0
	defer func() {
		if trouble := recover(); trouble != nil {
			failure = failed(c, at, Difference{"panic", fmt.Sprintf("%v\n%s", trouble, debug.Stack())})
		}
	}()
	l := &life{waiting: make(map[string]*corev1.Pod), committed: make(map[string]*corev1.Pod)}
	for ; at < len(c.Steps); at++ {
		differences, err := p.step(u, o, &c.Steps[at], l)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", at, err)
		}
		if len(differences) > 0 {
			return failed(c, at, differences...), nil
		}
	}
	at--
	if err := o.verify(); err != nil {
		return failed(c, at, Difference{"verify", err.Error()}), nil
	}
	return nil, nil
}

func failed(c *Case, step int, differences ...Difference) *Failure {
	return &Failure{Case: c, Step: step, Differences: differences}
}

// life is where the pods are that were judged, by UID: they wait, or are committed but not seen bound.
type life struct {
	waiting, committed map[string]*corev1.Pod
	// imagined is the UID of a pod that waits, and that only a snapshot believes to be placed.
	imagined string
}

func (p *Player) step(u *upstream, o *ours, s *Step, l *life) ([]Difference, error) {
	if l.imagined != "" && (s.Judge == nil || l.waiting[string(s.Judge.UID)] != s.Judge) {
		o.lagging = false
		if err := u.removePod(l.imagined); err != nil {
			return nil, err
		}
		l.imagined = ""
	}
	switch {
	case s.Judge != nil:
		return p.judge(u, o, s.Judge, l)
	case s.Commit != nil:
		pod := l.waiting[s.Commit.Pod]
		if pod == nil || u.nodes[s.Commit.Node] == nil || !o.store.Pod(facts.UID(pod.UID)).Schedulable() {
			return nil, nil // a pod that asks for what no node has is placed by neither
		}
		if s.Commit.Reject && s.Commit.Lag {
			l.imagined = s.Commit.Pod
		} else {
			delete(l.waiting, s.Commit.Pod)
			l.committed[s.Commit.Pod] = pod
		}
		o.commit(s.Commit)
		return nil, u.commit(pod, s.Commit.Node)
	case s.Release != "":
		pod := l.committed[s.Release]
		if pod == nil {
			return nil, nil
		}
		delete(l.committed, s.Release)
		l.waiting[s.Release] = pod
	case s.Relist:
		o.relist(u, l)
		return nil, nil
	case s.Pod != nil:
		delete(l.waiting, string(s.Pod.UID))
		delete(l.committed, string(s.Pod.UID))
	case s.RemovePod != "":
		delete(l.waiting, s.RemovePod)
		delete(l.committed, s.RemovePod)
	}
	o.apply(s)
	return nil, u.apply(s)
}

// judge compares what the two schedulers decide about a pending pod. The ledger gets the pod once, and again if it changed meanwhile.
func (p *Player) judge(u *upstream, o *ours, pod *corev1.Pod, l *life) ([]Difference, error) {
	uid := string(pod.UID)
	if u.pods[uid] != nil || pod.Spec.NodeName != "" {
		return nil, nil // it has its place
	}
	if known := l.waiting[uid]; known != pod {
		if known == nil || !equality.Semantic.DeepEqual(known, pod) {
			o.tell(pod)
		}
		l.waiting[uid] = pod
	}
	if err := u.judge(pod, &p.theirs); err != nil {
		return nil, err
	}
	if err := o.judge(pod, &p.ours); err != nil {
		return nil, err
	}
	differences := compare(&p.theirs, &p.ours)
	if p.object != nil {
		differences = append(differences, p.object(u, pod)...)
	}
	if len(differences) > 0 {
		return differences, nil
	}
	if p.watch != nil {
		p.watch(u, pod, &p.theirs)
	}
	if o.preempts != nil && !o.lagging && p.ours.Refused == "" && p.theirs.refuses() {
		return p.contest(u, o, pod)
	}
	return nil, nil
}
