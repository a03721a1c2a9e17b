package corun

import "math"

// tail is the distribution of a wait: none with probability 1-chance, else exponential with this mean in seconds.
type tail struct{ chance, mean float64 }

// maxUse is the use up to which a steady state of the queue is reached within a second; beyond it the backlog tells.
const maxUse = 0.985

// queueWait is Sakasegawa's approximation of the wait in a queue with c servers of which the share use is busy: the chance to wait is that of
// M/M/c within some percent, and the wait of those who do is exponential. variability is (ca²+cs²)/2, service the mean in seconds.
func queueWait(use, c, search, variability, service float64) tail {
	if use <= 0 || c <= 0 {
		return tail{}
	}
	use = min(use, maxUse)
	chance := math.Exp(math.Log(use) * (math.Sqrt(2*(max(c*search, 1)+1)) - 1)) // several times faster than math.Pow
	return tail{chance, variability * service / (c * (1 - use))}
}

// or is the wait of whoever waits for the one, or else for the other.
func (t tail) or(o tail) tail {
	chance := t.chance + o.chance - t.chance*o.chance
	if chance <= 0 {
		return tail{}
	}
	return tail{chance, (t.chance*t.mean + o.chance*o.mean) / chance}
}

// rare is a chance to wait that changes no share of one in a hundred.
const rare = 1e-6

// late is the share of requests whose exponential service of this mean, after the wait, ends later than target.
func (t tail) late(service, target float64) float64 {
	if target <= 0 {
		return 1
	}
	direct := math.Exp(-target / service)
	if t.chance <= rare || t.mean <= 0 {
		return direct
	}
	gap := t.mean - service
	if math.Abs(gap) < 1e-3*service { // the limit: a sum of two equal ones
		return direct * (1 + t.chance*target/service)
	}
	waited := (t.mean*math.Exp(-target/t.mean) - service*direct) / gap
	return min((1-t.chance)*direct+t.chance*waited, 1)
}

// contention is how much slower memory makes a thread when this share of its bandwidth is wanted.
func contention(share, slope float64) float64 {
	u := min(share, 0.95)
	u2 := u * u
	slow := 1 + slope*u2*u2/(1-u)
	if share > 1 { // what is wanted beyond it is not there
		slow *= share
	}
	return slow
}

// cacheLoss is the share of the cache it wants that somebody does without, when all together want this much and share it in proportion.
func cacheLoss(wanted, size float64) float64 {
	if wanted <= size || wanted <= 0 {
		return 0
	}
	return 1 - size/wanted
}
