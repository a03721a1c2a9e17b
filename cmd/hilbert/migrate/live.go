package migrate

//go:generate go test -count=1 -run ^TestLivePolicies . -args -policies

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
)

// vocabulary is what a system's function for pods asks for: the words that it knows.
type vocabulary struct{ words, resources map[string]bool }

func (v *vocabulary) word(key string) {
	if v != nil {
		v.words[key] = true
	}
}

func (v *vocabulary) resource(name string) {
	if v != nil {
		v.resources[name] = true
	}
}

// liveFacts are what an admission policy has to know of a system beside its words, and cannot find out by trying.
type liveFacts struct {
	// namespaces are where the system itself runs.
	namespaces []string
	// together are words that mean something only beside one of others.
	together map[string][]string
	// unread are words whose content a policy does not look at, with an example. All of them say something of a gang as a whole.
	unread map[string]string
	// native are words that Hilbert reads by itself.
	native []string
	// amounts are resources beside which words are tried.
	amounts map[string]string
	// owner is a word that shows that words without a domain are the system's, too.
	owner string
	// shares is the CEL by which parts of GPUs are rewritten: of a container's resources, r, with variables of its own, a list of what is taken out, what is written, and how much.
	shares string
}

func (s *system) live() liveFacts {
	switch s.name {
	case "koordinator":
		return liveFacts{namespaces: []string{"koordinator-system"}, shares: koordinatorShares, amounts: map[string]string{koordinatorDomain + "gpu-core": "7"}}
	case "katalyst":
		return liveFacts{namespaces: []string{"katalyst-system"}, native: []string{spec.AnnotationKatalystCPU, spec.AnnotationKatalystMemory}}
	case "volcano":
		return liveFacts{namespaces: []string{"volcano-system"}, shares: vgpuShares(vgpuWords{volcanoDomain + "vgpu-number", volcanoDomain + "vgpu-memory", "", volcanoDomain + "vgpu-cores"})}
	case "kueue":
		return liveFacts{namespaces: []string{"kueue-system"}}
	case "hami":
		return liveFacts{namespaces: []string{"hami-system"}, shares: vgpuShares(vgpuWords{spec.ResourceNvidiaGPU, "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"})}
	case "yunikorn":
		group, groups := yunikornDomain+"task-group-name", yunikornDomain+"task-groups"
		return liveFacts{
			namespaces: []string{"yunikorn"},
			together: map[string][]string{
				yunikornDomain + "app-id": {group, groups}, "applicationId": {group, groups}, group: {yunikornDomain + "app-id", "applicationId"},
			},
			unread: map[string]string{groups: `[{"name": "a", "minMember": 7}]`, yunikornDomain + "schedulingPolicyParameters": "placeholderTimeoutInSeconds=7"},
		}
	case "kai":
		return liveFacts{namespaces: []string{"kai-scheduler"}, owner: kaiDomain + "queue", shares: kaiShares}
	}
	return liveFacts{}
}

// Classes of values in the rows of a policy. Any other text is the value itself.
const (
	anyValue      = "*" // and the value where a row writes it
	positive      = "#" // a whole number from 1
	fraction      = "." // between 0 and 1
	severalValues = "," // with commas
	percentage    = "%" // 1 to 99, or a multiple of 100; of resources
)

// samples try a class: all of them must be taken.
var samples = []struct {
	class  string
	values []string
}{
	{anyValue, []string{"zz9"}},
	{positive, []string{"7", "12"}},
	{fraction, []string{"0.5", "0.25"}},
	{severalValues, []string{"zz8,zz7"}},
}

// candidates are all values that mean something of their own to some system. Whoever adds one to a function and not here finds it refused by the policy.
var candidates = []string{
	"LSE", "LSR", "LS", "BE", "SYSTEM", "LC", "HLS", "none", "best-effort", "restricted", "single-numa-node", "hami-core", "mps", "mig", "true", "Strict", "NonStrict",
	string(spec.QoSDedicated), string(spec.QoSShared), string(spec.QoSReclaimed), string(spec.QoSSystem), "1",
}

// liveRow is what a policy writes for a word: where is labels or annotations; empty: the word is known, and nothing is written.
type liveRow struct{ key, value, when, where, to, text string }

// liveWarning is what a policy tells of a word.
type liveWarning struct{ key, value, when, message string }

// liveRename is a resource under another name.
type liveRename struct{ from, class, to string }

// liveRules are a system's words as an admission policy can handle them.
type liveRules struct {
	facts    liveFacts
	system   *system
	plain    []string // words without a domain of the system
	known    []string // words that hilbert migrate reads and the policy does not
	rows     []liveRow
	warnings []liveWarning
	renames  []liveRename
	offline  []string // resources of the same kind
}

// attempt is what became of a pod with some words.
type attempt struct {
	refused, affinity bool
	writes            []liveRow // without key, value and when
	warnings          []string
	resources         map[string]string
}

// liveRulesOf finds a system's rules by rewriting pods of one word each: so the policy and hilbert migrate cannot disagree.
func liveRulesOf(s *system) *liveRules {
	l := &liveRules{system: s, facts: s.live()}
	if s.pod == nil {
		return l
	}
	domain, named := s.vocabulary(false, &l.facts), s.vocabulary(true, &l.facts)
	for _, key := range slices.Sorted(maps.Keys(named.words)) {
		if !s.owns(key) {
			l.plain = append(l.plain, key)
		}
		l.word(key)
	}
	for _, name := range slices.Sorted(maps.Keys(domain.resources)) {
		switch {
		case !s.owns(name):
		case strings.Contains(l.facts.shares, "['"+name+"'"): // its meaning hangs on others
			l.offline = append(l.offline, name)
		default:
			l.amount(name)
		}
	}
	if s.name == "koordinator" { // a pod without a QoS class has that of its PriorityClass
		for _, class := range []string{"koord-batch", "koord-free"} {
			l.rows = append(l.rows, liveRow{priorityClass, class, "-" + koordinatorDomain + "qosClass", "labels", spec.LabelQoS, string(spec.QoSReclaimed)},
				liveRow{key: priorityClass, value: class, when: "+" + koordinatorDomain + "qosClass"})
		}
	}
	return l
}

// priorityClass is a field that is handled as if it were a word.
const priorityClass = "spec.priorityClassName"

// vocabulary is what the system's function asks for, of a pod that names its scheduler or not.
func (s *system) vocabulary(named bool, facts *liveFacts) *vocabulary {
	v := &vocabulary{words: make(map[string]bool), resources: make(map[string]bool)}
	words := map[string]string{}
	if facts.owner != "" {
		words[facts.owner] = "x"
	}
	s.try(v, named, words, facts.amounts)
	return v
}

// try rewrites a pod.
func (s *system) try(asked *vocabulary, named bool, words, resources map[string]string) attempt {
	limits := make(map[string]any)
	for name, amount := range resources {
		limits[name] = amount
	}
	root := object{encode(map[string]any{
		"metadata": map[string]any{"annotations": words},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "resources": map[string]any{"limits": limits}}}},
	})}
	r := &run{options: Options{SchedulerName: spec.DefaultSchedulerName, PodGroups: SIGPodGroups}, gangs: make(map[gangKey]*gang), queues: make(map[string]string), asked: asked}
	p := &pod{run: r, of: subject{object: root, kind: "Pod"}, root: root, system: s}
	s.pod(p, named)
	p.leftovers()
	r.labelNamespaces()
	out := attempt{affinity: root.at("spec", "affinity").node != nil, resources: make(map[string]string)}
	if p.gang.name != "" {
		p.setLabel(spec.LabelPodGroup, p.gang.name)
	}
	for _, where := range []string{"labels", "annotations"} {
		o := root.at("metadata", where)
		for _, key := range o.keys() {
			if _, was := words[key]; !was || where == "labels" {
				text, _ := o.text(key)
				out.writes = append(out.writes, liveRow{where: where, to: key, text: text})
			}
		}
	}
	o := p.first().at("resources", "limits")
	for _, key := range o.keys() {
		out.resources[key], _ = o.text(key)
	}
	for _, f := range r.findings {
		switch {
		case f.Outcome == Unknown:
			out.refused = true
		case (f.Outcome == Lost || f.Outcome == Invented || f.Outcome == Manual) && !strings.HasPrefix(f.Message, allowTheLevel):
			out.warnings = append(out.warnings, f.Message)
		}
	}
	if p.gang.min > 0 || p.gang.timeout != "" {
		out.warnings = append(out.warnings, "it belongs to the PodGroup, and an admission policy makes none: write it before the pods, as hilbert migrate does")
	}
	return out
}

// word finds what a label or annotation becomes.
func (l *liveRules) word(key string) {
	if slices.Contains(l.facts.native, key) {
		l.rows = append(l.rows, liveRow{key: key, value: anyValue})
		return
	}
	if example, ok := l.facts.unread[key]; ok {
		a := l.system.try(nil, true, l.beside(key, example, ""), l.facts.amounts)
		l.add(key, anyValue, "", example, a)
		return
	}
	alone := "-" + strings.Join(l.facts.together[key], " ")
	if alone == "-" {
		alone = ""
	}
	before := len(l.rows)
	l.values(key, alone, "")
	for _, other := range l.facts.together[key] {
		l.values(key, "+"+other, other)
	}
	if len(l.rows) == before {
		l.known = append(l.known, key)
	}
}

// beside are the words of a trial: one, with another that gives it its meaning, and with what shows whose they are.
func (l *liveRules) beside(key, value, other string) map[string]string {
	words := map[string]string{key: value}
	if l.facts.owner != "" && key != l.facts.owner && !l.system.owns(key) {
		words[l.facts.owner] = "x"
	}
	if other != "" {
		words[other] = cmp.Or(l.facts.unread[other], besideValue)
	}
	return words
}

// besideValue is the value of a word that stands beside the one that is tried; what is written of it belongs to that word.
const besideValue = "beside"

// values tries all values of a word.
func (l *liveRules) values(key, when, other string) {
	var without attempt // what the other words say
	if base := l.beside(key, "", other); len(base) > 1 {
		delete(base, key)
		without = l.system.try(nil, true, base, l.facts.amounts)
	}
	try := func(value string) attempt {
		a := l.system.try(nil, true, l.beside(key, value, other), l.facts.amounts)
		a.warnings = slices.DeleteFunc(a.warnings, func(w string) bool { return slices.Contains(without.warnings, w) })
		a.writes = slices.DeleteFunc(a.writes, func(w liveRow) bool {
			return slices.Contains(without.writes, w) || other != "" && w.text == besideValue
		})
		return a
	}
	var general class
	for _, s := range samples {
		a, taken := attempt{}, true
		for _, value := range s.values {
			a = try(value)
			taken = taken && !a.refused && !a.affinity
		}
		last := s.values[len(s.values)-1]
		if !taken || general.has(a, last) || general.of != nil && s.class != severalValues {
			continue
		}
		l.add(key, s.class, when, last, a)
		if s.class == anyValue || s.class == positive {
			general = class{&a, last}
		}
	}
	for _, value := range candidates {
		if a := try(value); !a.refused && !a.affinity && !general.has(a, value) {
			l.add(key, value, when, value, a)
		}
	}
}

// class is what becomes of any value, as tried with an example.
type class struct {
	of      *attempt
	example string
}

// has reports whether a value is one of any: the same becomes of it, but where it is copied.
func (c class) has(a attempt, value string) bool {
	if c.of == nil || len(a.writes) != len(c.of.writes) || len(a.warnings) != len(c.of.warnings) {
		return false
	}
	for i, w := range c.of.writes {
		if w.text = strings.ReplaceAll(w.text, c.example, value); a.writes[i] != w {
			return false
		}
	}
	for i, w := range c.of.warnings {
		if a.warnings[i] != strings.ReplaceAll(w, c.example, value) {
			return false
		}
	}
	return true
}

// add adds what became of a value, or of a class of values, of which one was tried.
func (l *liveRules) add(key, value, when, tried string, a attempt) {
	accepted := func(r liveRow) bool { return r.key == key && r.value == anyValue && r.when == when }
	if len(a.writes) == 0 && !slices.ContainsFunc(l.rows, accepted) {
		l.rows = append(l.rows, liveRow{key: key, value: value, when: when})
	}
	for _, w := range a.writes {
		w.key, w.value, w.when = key, value, when
		if value == anyValue && w.text == tried {
			w.text = anyValue
		}
		l.rows = append(l.rows, w)
	}
	for _, message := range a.warnings {
		if value == anyValue {
			message = strings.ReplaceAll(message, tried, "VALUE")
		}
		l.warnings = append(l.warnings, liveWarning{key, value, when, message})
	}
}

// amount finds what a resource becomes: a rename, or nothing that a policy can do by one row.
func (l *liveRules) amount(name string) {
	for _, class := range []struct {
		class          string
		taken, refused []string
	}{{anyValue, []string{"7", "250", "1500m"}, nil}, {percentage, []string{"7", "99", "300"}, []string{"0", "101", "250"}}} {
		to := ""
		copies := func(amount string) bool {
			a := l.system.try(nil, true, nil, map[string]string{name: amount})
			for key, value := range a.resources {
				to = key
				return !a.refused && len(a.resources) == 1 && len(a.warnings) == 0 && value == amount
			}
			return false
		}
		if slices.ContainsFunc(class.refused, copies) || slices.ContainsFunc(class.taken, func(amount string) bool { return !copies(amount) }) {
			continue
		}
		l.renames = append(l.renames, liveRename{name, class.class, to})
		return
	}
	l.offline = append(l.offline, name)
}
