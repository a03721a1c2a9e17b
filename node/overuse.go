package node

import (
	"fmt"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/oom"
	"hilbert.dev/hilbert/node/pods"
	"hilbert.dev/hilbert/node/report"
)

// overuseController tells of online pods that hold more memory than they requested. They endanger the node, for nobody counts on what they hold; but they are services, so
// nothing is done to them.
type overuseController struct {
	node  *nodeState
	state evict.OnlineState
	found []evict.Overuse
	told  map[string]bool // by UID
}

// Tick implements controller.
func (c *overuseController) Tick(in *inputs) (changed bool) {
	var online []evict.OnlinePod
	for _, p := range c.node.Pods.Sorted() {
		if asked, pool, known := c.node.Manager.Pod(p.Ref.UID); known && pods.LevelOf(&asked, pool) != spec.QoSReclaimed {
			use := in.seen.use(p.Cgroup)
			online = append(online, evict.OnlinePod{
				PodRef: p.Ref, RSS: plus(bytesOf(use.Memory.Anon), bytesOf(use.Memory.Shmem)), Requested: c.requested(p, bytesOf(in.seen.seen.Node.Memory.Total)),
			})
		}
	}
	c.found = evict.StepOnline(in.seen.laws.At, online, &c.node.options.Config.Eviction.Online, &c.state)
	told := make(map[string]bool, len(c.found))
	for i := range c.found {
		o := &c.found[i]
		if told[o.Pod.UID] = true; !c.told[o.Pod.UID] {
			c.node.Events.Note(o.Pod, allocate.Note{Reason: spec.ReasonMemoryOveruse, Message: overuseText(o)})
		}
	}
	c.told = told
	return false
}

// requested is what a pod's containers requested of memory; not known where that of one is not, or where one requested next to nothing. The kubelet's score says it in
// thousandths of the node, rounded down, so one thousandth more is allowed for.
func (c *overuseController) requested(p *pods.Pod, total advise.Sample) (out advise.Sample) {
	for _, box := range p.Containers {
		request := memoryRequest(box, total)
		if request == 0 || !total.Known {
			return advise.Sample{}
		}
		if *box.Score > guaranteedScore {
			request += int64(total.Value) / oom.Thousandths
		}
		out.Value, out.Known = out.Value+float64(request), true
	}
	return out
}

func overuseText(o *evict.Overuse) string {
	const mebibyte = 1 << 20
	return fmt.Sprintf("it holds %.0f MiB of memory and requested %.0f MiB", o.RSS/mebibyte, o.Requested/mebibyte)
}

// condition is what the report says of them; nil: there are none.
func (c *overuseController) condition() *spec.NodeCondition {
	n := len(c.found)
	if n == 0 {
		return nil
	}
	const most = 5 // the message is for people; the metric counts all
	var words []string
	for i := range c.found[:min(n, most)] {
		words = append(words, c.found[i].Pod.Namespace+"/"+c.found[i].Pod.Name)
	}
	text := fmt.Sprintf("%d online pods hold more memory than they requested: %s", n, strings.Join(words, ", "))
	if n > most {
		text += ", ..."
	}
	return &spec.NodeCondition{Type: spec.ConditionOnlineOveruse, True: true, Reason: spec.ReasonMemoryOveruse, Message: report.Message(text)}
}
