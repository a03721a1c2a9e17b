package systemd

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/topology"
)

// knobs are files of the kernel and what they say.
type knobs map[string]string

// group is what the kernel says of a pod.
type group struct {
	dir, scope string // the pod's cgroup and its container's
	idle       string
	cpus, mems topology.CPUSet
}

// look reads a pod's knobs: those of its slice, and of its container's scope, which must say the same. The sandbox's scope says nothing of
// its own; its slice confines it.
func (r *rig) look(p *corev1.Pod, all knobs) group {
	r.t.Helper()
	ctx := r.t.Context()
	slice, err := r.PodCgroup(ctx, p)
	if err != nil {
		r.t.Fatal(err)
	}
	scope, err := r.ContainerCgroup(ctx, p, container)
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.HasSuffix(slice, ".slice") || path.Dir(scope) != slice || path.Ext(scope) != ".scope" {
		r.t.Fatalf("pod %s has cgroup %s, its container %s; want a slice, and a scope in it", p.Name, slice, scope)
	}
	files, err := r.Guest.ReadFiles(ctx, slice+"/cpuset.cpus", slice+"/cpuset.mems", slice+"/cpu.idle", scope+"/cpuset.cpus", scope+"/cpuset.mems")
	if err != nil {
		r.t.Fatal(err)
	}
	if len(files) != 5 {
		r.t.Fatalf("pod %s has knobs %v, want three of its slice and two of its container's scope", p.Name, slices.Sorted(maps.Keys(files)))
	}
	g := group{dir: slice, scope: scope}
	for name, text := range files {
		text = strings.TrimSpace(text)
		all[name] = text
		file := path.Base(name)
		if file == "cpu.idle" {
			g.idle = text
			continue
		}
		if of := strings.TrimSpace(files[slice+"/"+file]); text != of {
			r.t.Errorf("pod %s: %s says %q, its slice %q", p.Name, name, text, of)
		}
	}
	for file, set := range map[string]*topology.CPUSet{"cpuset.cpus": &g.cpus, "cpuset.mems": &g.mems} {
		if *set, err = topology.ParseCPUSet(all[slice+"/"+file]); err != nil {
			r.t.Fatalf("%s/%s: %v", slice, file, err)
		}
	}
	return g
}

// watched is what was seen of knobs while something was done and for a while afterwards.
type watched struct {
	status  int           // of what was done
	took    time.Duration // by what was done
	longest time.Duration // that any knob was wrong at a stretch
	wrong   bool          // in the end
	looks   int
	seen    []string // knobs that were wrong, at any time, and with what value
	said    string
}

func (w watched) String() string {
	return fmt.Sprintf("done in %s; of %d looks at the knobs the longest stretch with a wrong one was %s; seen wrong: %v", w.took, w.looks, w.longest, w.seen)
}

// watch runs a command in the guest, and reads all knobs again and again from its start until some time after its end. The loop runs in the
// guest, in one shell: times are the guest's, to a hundredth of a second.
func (r *rig) watch(command string, after time.Duration, want knobs) watched {
	r.t.Helper()
	var looks strings.Builder
	for _, name := range slices.Sorted(maps.Keys(want)) {
		fmt.Fprintf(&looks, "v=; read -r v <%s; [ \"$v\" = '%s' ] || bad=\"$bad %s=$v\"\n", name, want[name], name)
	}
	const loop = `
now() { read -r u _ </proc/uptime; now=${u%%.*}${u#*.}; }
rm -f /tmp/done; now; begin=$now; ended=; since=; longest=0; looks=0; seen=
( ( %s ) >/tmp/said 2>&1; echo $? >/tmp/done.new; mv /tmp/done.new /tmp/done ) &
while :; do
bad=
%snow
looks=$((looks+1))
if [ -n "$bad" ]; then
	: "${since:=$now}"
	[ $((now-since)) -le $longest ] || longest=$((now-since))
	for b in $bad; do case " $seen " in *" $b "*) ;; *) seen="$seen $b" ;; esac; done
elif [ -n "$since" ]; then
	[ $((now-since)) -le $longest ] || longest=$((now-since))
	since=
fi
[ -n "$ended" ] || [ ! -e /tmp/done ] || ended=$now
[ -z "$ended" ] || [ $((now-ended)) -lt %d ] || break
sleep 0.02
done
read -r status </tmp/done
wrong=0; [ -z "$since" ] || wrong=1
echo $status $((ended-begin)) $longest $wrong $looks $seen
cat /tmp/said
`
	const hundredth = 10 * time.Millisecond
	out, err := r.Guest.Shell(r.t.Context(), fmt.Sprintf(loop, command, looks.String(), after/hundredth))
	if err != nil {
		r.t.Fatal(err)
	}
	var w watched
	var took, longest time.Duration
	var wrong int
	first, said, _ := strings.Cut(out, "\n")
	if _, err := fmt.Sscan(first, &w.status, &took, &longest, &wrong, &w.looks); err != nil {
		r.t.Fatalf("%q: %v", first, err)
	}
	w.took, w.longest, w.wrong, w.said = took*hundredth, longest*hundredth, wrong != 0, said
	w.seen = strings.Fields(first)[5:]
	for i, name := range w.seen {
		w.seen[i] = strings.TrimPrefix(name, "/sys/fs/cgroup/kubepods.slice/")
	}
	return w
}
