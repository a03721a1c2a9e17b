package migrate

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/deploy/policies"
)

// LiveSystems are the systems for which LivePolicies writes policies.
func LiveSystems() (names []string) {
	for _, s := range systems() {
		names = append(names, s.name)
	}
	return names
}

// LivePolicies writes the admission policies that rewrite the pods of a system while they are created, as YAML. What they say of each word was found by rewriting a pod with that word
// as Run does. They have rules for pods alone, and none for what needs more than one pod, numbers that are not copied, or JSON: such pods are refused.
func LivePolicies(name string) ([]byte, error) {
	all := systems()
	i := slices.IndexFunc(all, func(s system) bool { return s.name == name })
	if i < 0 {
		return nil, fmt.Errorf("system %q: write one of %s", name, strings.Join(LiveSystems(), ", "))
	}
	l := liveRulesOf(&all[i])
	data := l.data()
	if slices.ContainsFunc(l.rows, func(r liveRow) bool { return r.to == spec.LabelQoS && r.text == string(spec.QoSReclaimed) }) {
		reclaimed, err := readCorePolicy("reclaimed.yaml", "hilbert-reclaimed")
		if err != nil {
			return nil, err
		}
		data.Core = append(data.Core, reclaimed)
	}
	plugin, err := readCorePolicy("required-plugin.yaml", "hilbert-required-plugin")
	if err != nil {
		return nil, err
	}
	data.Core = append(data.Core, plugin)
	var out bytes.Buffer
	if err := liveTemplate.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("write the policies for %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// liveData is what the template wants.
type liveData struct {
	Name, Label, Annotation, Scheduler, Exempt string
	Speaks, Owns, Ours, Said                   string
	Rows, Accepted, Warnings, Renames, Shares  string
	Known, Offline                             string
	Words, Resources, Refuses, HasWarnings     bool
	Core                                       []corePolicy
}

// corePolicy is a MutatingAdmissionPolicy of deploy/policies, without what it matches: its conditions are When.
type corePolicy struct {
	Name, When, Expression string
	Variables              []named
}

// named is a condition or a variable of a policy.
type named struct{ Name, Expression string }

// readCorePolicy finds a policy among those that are always in force.
func readCorePolicy(file, name string) (corePolicy, error) {
	out := corePolicy{Name: name}
	text, err := policies.Files.ReadFile(file)
	if err != nil {
		return out, err
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var p struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				MatchConditions []named `yaml:"matchConditions"`
				Variables       []named
				Mutations       []struct {
					JSONPatch struct{ Expression string } `yaml:"jsonPatch"`
				}
			}
		}
		if err := yaml.Unmarshal([]byte(document), &p); err != nil {
			return out, fmt.Errorf("%s: %w", file, err)
		}
		if p.Kind != "MutatingAdmissionPolicy" || p.Metadata.Name != name || len(p.Spec.Mutations) != 1 {
			continue
		}
		var when []string
		for _, c := range p.Spec.MatchConditions {
			when = append(when, "("+c.Expression+")")
		}
		for _, v := range p.Spec.Variables {
			v.Expression = folded(v.Expression, 8)
			out.Variables = append(out.Variables, v)
		}
		out.When, out.Expression = folded(strings.Join(when, " && "), 10), folded(p.Spec.Mutations[0].JSONPatch.Expression, 10)
		return out, nil
	}
	return out, fmt.Errorf("%s has no MutatingAdmissionPolicy %s of one mutation", file, name)
}

// folded breaks a text at spaces, for a folded block with an indent.
func folded(text string, indent int) string {
	var out strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column > 0 && column+len(word) > 150:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			column = 0
		case column > 0:
			out.WriteString(" ")
			column++
		}
		out.WriteString(word)
		column += len(word)
	}
	return out.String()
}

func (l *liveRules) data() liveData {
	s := l.system
	d := liveData{
		Name: s.name, Label: spec.LabelMigrate, Annotation: spec.AnnotationMigratedFrom, Scheduler: spec.DefaultSchedulerName,
		Owns: owns(s.prefixes), Known: celList(l.known), Offline: celList(l.offline), Shares: l.facts.shares,
		Words: len(l.rows) > 0, Resources: len(l.renames) > 0 || l.facts.shares != "", Refuses: len(s.kept) == 0, HasWarnings: len(l.warnings) > 0,
		Exempt: strings.Join(append([]string{"kube-system", "hilbert-system"}, l.facts.namespaces...), ", "),
	}
	var rows, accepted, warnings, renames []string
	for _, r := range l.rows {
		if r.where != "" {
			rows = append(rows, celList([]string{r.key, r.value, r.when, r.where, r.to, r.text}))
		}
		any := slices.ContainsFunc(l.rows, func(o liveRow) bool { return o.key == r.key && o.value == anyValue && o.when == "" }) && r.value != anyValue
		if row := celList([]string{r.key, r.value, r.when}); !any && !slices.Contains(accepted, row) {
			accepted = append(accepted, row)
		}
	}
	for _, w := range l.warnings {
		warnings = append(warnings, celList([]string{w.key, w.value, w.when, w.message}))
	}
	for _, r := range l.renames {
		renames = append(renames, celList([]string{r.from, r.class, r.to}))
	}
	d.Rows, d.Accepted, d.Warnings = table(rows), table(accepted), table(warnings)
	if len(renames) > 0 {
		d.Renames = table(renames)
	}
	own := d.Owns
	if len(l.plain) > 0 {
		d.Ours = fmt.Sprintf("object.spec.schedulerName in %s || variables.annotations[?'%s'].orValue('') == '%s'", celList(s.schedulers), spec.AnnotationMigratedFrom, s.name)
		if l.facts.owner != "" {
			d.Ours += fmt.Sprintf(" || '%[1]s' in variables.labels || '%[1]s' in variables.annotations", l.facts.owner)
		}
		own = fmt.Sprintf("(%s || variables.ours && k in %s)", own, celList(l.plain))
	}
	d.Said = fmt.Sprintf("variables.labels.filter(k, %[1]s).map(k, [string(k), string(variables.labels[k])]) +\n        variables.annotations.filter(k, !(k in variables.labels) && %[1]s).map(k, [string(k), string(variables.annotations[k])])", own)
	if slices.ContainsFunc(l.rows, func(r liveRow) bool { return r.key == priorityClass }) {
		d.Said += fmt.Sprintf(" +\n        [['%s', string(object.spec.?priorityClassName.orValue(''))]].filter(w, w[1] in ['koord-batch', 'koord-free'])", priorityClass)
	}
	speaks := []string{}
	if len(s.schedulers) > 0 {
		speaks = append(speaks, "object.spec.schedulerName in "+celList(s.schedulers))
	}
	if len(l.plain) > 0 {
		speaks = append(speaks, fmt.Sprintf("object.metadata.?annotations[?'%s'].orValue('') == '%s'", spec.AnnotationMigratedFrom, s.name))
	}
	speaks = append(speaks, "[object.metadata.?labels.orValue({}), object.metadata.?annotations.orValue({})].exists(m, m.exists(k, "+d.Owns+"))")
	if d.Resources {
		speaks = append(speaks, "[object.spec.containers, object.spec.?initContainers.orValue([])].exists(list, list.exists(c, has(c.resources) &&\n        [c.resources.?requests.orValue({}), c.resources.?limits.orValue({})].exists(m, m.exists(k, "+d.Owns+"))))")
	}
	d.Speaks = strings.Join(speaks, " ||\n        ")
	return d
}

// owns is the CEL that says whether a key, k, has one of the prefixes.
func owns(prefixes []string) string {
	var domains, keys, terms []string
	for _, p := range prefixes {
		if strings.HasSuffix(p, "/") {
			domains = append(domains, p)
		} else {
			keys = append(keys, p)
		}
	}
	for _, d := range domains {
		terms = append(terms, fmt.Sprintf("k.startsWith('%s')", d))
	}
	if len(keys) > 0 {
		terms = append(terms, "k in "+celList(keys))
	}
	return "(" + strings.Join(terms, " || ") + ")"
}

func celList(texts []string) string {
	var out []string
	for _, t := range texts {
		out = append(out, "'"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(t)+"'")
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// table is a list of lists, a line each.
func table(rows []string) string {
	if len(rows) == 0 {
		return "[]"
	}
	return "[\n        " + strings.Join(rows, ",\n        ") + "\n        ]"
}

// asks is the CEL for the amount of a resource in r, empty where it has none. Kubernetes has written a limit without a request as the request too, and lets nobody ask for two amounts.
func asks(name string) string { return fmt.Sprintf("string(r.?requests[?'%s'].orValue(''))", name) }

// koordinatorShares: a memory ratio that is that of the compute is what Hilbert takes without a word.
var koordinatorShares = fmt.Sprintf("(%[1]s != '' && %[2]s == %[1]s ? [['%[3]s', '', '']] : []) +\n        (%[1]s != '' && %[4]s == '1' ? [['%[5]s', '', '']] : [])",
	asks(koordinatorDomain+"gpu-core"), asks(koordinatorDomain+"gpu-memory-ratio"), koordinatorDomain+"gpu-memory-ratio", asks(koordinatorDomain+"gpu.shared"), koordinatorDomain+"gpu.shared")

// vgpuShares is what vgpu does where the compute is said; or, with a word of its own for GPUs, where no share is.
func vgpuShares(names vgpuWords) string {
	number := fmt.Sprintf("(%[1]s == '' ? '1' : %[1]s)", asks(names.number))
	memory := fmt.Sprintf("(%s == '' ? [] : [['%s', '%s', %s]])", asks(names.memory), names.memory, spec.ResourceGPUMemory, asks(names.memory))
	drop, ratio := "", ""
	if names.memoryPercent != "" {
		drop = fmt.Sprintf("['%s', '', ''], ", names.memoryPercent)
		ratio = fmt.Sprintf(" && (%[1]s == '' || %[2]s != '' || %[1]s == %[3]s)", asks(names.memoryPercent), asks(names.memory), asks(names.cores))
	}
	whole := "[]"
	if names.number != spec.ResourceNvidiaGPU {
		whole = fmt.Sprintf("(%[1]s != '' && %[2]s == '' ? [['%[3]s', '%[4]s', %[1]s]] : [])", asks(names.number), asks(names.memory), names.number, spec.ResourceNvidiaGPU)
	}
	return fmt.Sprintf(`%[1]s == '100' ? [['%[2]s', '', ''], %[3]s['%[4]s', '%[5]s', %[6]s]] + %[7]s :
        %[1]s.matches('^[1-9][0-9]?$') && %[6]s == '1'%[8]s ? [['%[4]s', '', ''], %[3]s['%[2]s', '%[9]s', %[1]s]] + %[7]s :
        %[1]s == '' ? %[10]s : []`,
		asks(names.cores), names.cores, drop, names.number, spec.ResourceNvidiaGPU, number, memory, ratio, spec.ResourceGPUCore, whole)
}

// kaiShares: the fraction is the pod's, and its first container gets it, in thousandths that are rounded up.
var kaiShares = fmt.Sprintf(`i != 0 ? [] : variables.said.filter(w, w[0] == 'gpu-fraction' && w[1].matches('^0?[.][0-9]*[1-9][0-9]*$')).map(w, ['', '%s',
        string(int(double(w[1]) * 1000.0 - 0.000001) + 1)])`, spec.ResourceGPUMilli)

var liveTemplate = template.Must(template.New("policies").Parse(`# Rewrites the pods of {{.Name}} for Hilbert while they are created. Off by default: see docs/migrate/live.md. Written by make gen from what hilbert migrate does; do not edit.
# Labels and annotations of {{.Name}} stay on the pod, for a selector may name them; words of Hilbert that a pod has already stay as they are.
# Namespaces with the label {{.Label}}: "false" are left alone. Where the scheduler has another name than {{.Scheduler}}, write it here.
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata:
  name: hilbert-migrate-{{.Name}}
spec:
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
{{- template "matches" .}}
  variables:
{{- template "words" .}}
{{- if .Words}}
    # Key; value (* any, # a number from 1, . a fraction, with a comma); + only beside a word, - only without; what is written where: * is the value.
    - name: rows
      expression: >-
        {{.Rows}}
    - name: hits
      expression: >-
        variables.said.map(w, variables.rows.filter(r, {{template "fits"}}).map(r, [r[3], r[4], r[5] == '*' ? w[1] : r[5]])).flatten()
    - name: writes
      expression: >-
        variables.hits.filter(h, h[0] == 'labels' && !(h[1] in variables.labels) || h[0] == 'annotations' && !(h[1] in variables.annotations))
{{- end}}
{{- if .Resources}}
    - name: resources
      expression: (object.spec.containers + object.spec.?initContainers.orValue([])).map(c, c.?resources.orValue({}))
    - name: places
      expression: >-
        variables.resources.transformList(i, r, i < size(object.spec.containers) ? '/spec/containers/' + string(i) + '/resources' :
        '/spec/initContainers/' + string(i - size(object.spec.containers)) + '/resources')
{{- if .Renames}}
    # Resources: theirs, the class of amounts, and ours.
    - name: renames
      expression: >-
        {{.Renames}}
{{- end}}
    # Of each container: what is taken out, what is written, and how much. A limit counts where there is one.
    - name: turned
      expression: >-
        variables.resources.transformList(i, r,
        {{- if .Renames}}
        variables.renames.map(n, [n[0], n[2], string(r.?limits[?n[0]].orValue(r.?requests[?n[0]].orValue(''))), n[1]]).filter(n, n[2] != '' && (n[3] == '*' ||
        quantity(n[2]).isInteger() && (quantity(n[2]).asInteger() % 100 == 0 ? quantity(n[2]).asInteger() > 0 : quantity(n[2]).asInteger() > 0 && quantity(n[2]).asInteger() < 100))).map(n, [n[0], n[1], n[2]])
        {{- end}}
        {{- if and .Renames .Shares}} +
        {{- end}}
        {{- if .Shares}}
        ({{.Shares}})
        {{- end}})
{{- end}}
{{- range .Core}}
{{- range .Variables}}
    - name: {{.Name}}
      expression: >-
        {{.Expression}}
{{- end}}
{{- end}}
  mutations:
{{- if .Words}}
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          (has(object.metadata.labels) || !variables.writes.exists(w, w[0] == 'labels') ? [] : [JSONPatch{op: 'add', path: '/metadata/labels', value: {}}]) +
          variables.writes.filter(w, w[0] == 'labels').map(w, JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey(w[1]), value: w[2]})
{{- end}}
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          (has(object.metadata.annotations) ? [] : [JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}]) +
          {{- if .Words}}
          variables.writes.filter(w, w[0] == 'annotations').map(w, JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey(w[1]), value: w[2]}) +
          {{- end}}
          (object.metadata.?annotations[?'{{.Annotation}}'].hasValue() ? [] :
          [JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('{{.Annotation}}'), value: '{{.Name}}'}])
{{- if .Resources}}
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          variables.resources.transformList(i, r, size(variables.turned[i]) == 0 ? [] :
          ('requests' in r ? [] : [JSONPatch{op: 'add', path: variables.places[i] + '/requests', value: {}}]) +
          ('limits' in r ? [] : [JSONPatch{op: 'add', path: variables.places[i] + '/limits', value: {}}]) +
          ['requests', 'limits'].map(list, variables.turned[i].map(n,
          (r[?list][?n[0]].hasValue() ? [JSONPatch{op: 'remove', path: variables.places[i] + '/' + list + '/' + jsonpatch.escapeKey(n[0])}] : []) +
          (n[1] == '' ? [] : [JSONPatch{op: 'add', path: variables.places[i] + '/' + list + '/' + jsonpatch.escapeKey(n[1]), value: n[2]}])).flatten()).flatten()).flatten()
{{- end}}
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          [JSONPatch{op: 'add', path: '/spec/schedulerName', value: '{{.Scheduler}}'}]
{{- range .Core}}
    # What {{.Name}} does. It is not called again after this policy if its conditions were not met before, and the order of policies is the API server's.
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          !({{.When}}) ? [] :
          {{.Expression}}
{{- end}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata:
  name: hilbert-migrate-{{.Name}}
spec:
  policyName: hilbert-migrate-{{.Name}}
{{- template "where" .}}
{{- if .Refuses}}
---
# What hilbert migrate would refuse, and what a policy cannot rewrite.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: hilbert-migrate-{{.Name}}-check
spec:
  failurePolicy: Fail
{{- template "matches" .}}
  variables:
{{- template "words" .}}
    # Key; value (* any, # a number from 1, . a fraction, with a comma); + only beside a word, - only without.
    - name: accepted
      expression: >-
        {{.Accepted}}
    - name: known
      expression: >-
        {{.Known}}
    - name: wrong
      expression: >-
        variables.said.filter(w, !variables.accepted.exists(r, {{template "fits"}})).map(w, w[0] + ': ' + (w[0] in variables.known ? 'an admission policy cannot rewrite it; hilbert migrate can, or says what to write' :
        variables.accepted.exists(r, r[0] == w[0]) ? 'Hilbert has no word for this value, or not without another' : 'its meaning is not known here; take it out, or write what it should become'))
{{- if .Resources}}
    - name: left
      expression: >-
        (object.spec.containers + object.spec.?initContainers.orValue([])).map(c, c.?resources.?requests.orValue({}).filter(k, {{.Owns}}) + c.?resources.?limits.orValue({}).filter(k, {{.Owns}})).flatten().distinct().sort()
{{- end}}
  validations:
    - expression: size(variables.wrong) == 0
      messageExpression: variables.wrong.sort().join('; ')
{{- if .Resources}}
    - expression: size(variables.left) == 0
      messageExpression: >-
        variables.left.map(k, k + ': ' + (k in {{.Offline}} ? 'an admission policy cannot rewrite it with these amounts; hilbert migrate can, or says what to write' :
        'its meaning, or this amount of it, is not known here; take it out, or write what it should become')).join('; ')
{{- end}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: hilbert-migrate-{{.Name}}-check
spec:
  policyName: hilbert-migrate-{{.Name}}-check
  validationActions: [Deny]
{{- template "where" .}}
{{- end}}
{{- if .HasWarnings}}
---
# What is lost, invented, or left to a person.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: hilbert-migrate-{{.Name}}-lost
spec:
  failurePolicy: Ignore
{{- template "matches" .}}
  variables:
{{- template "words" .}}
    - name: messages
      expression: >-
        {{.Warnings}}
    - name: told
      expression: >-
        variables.said.map(w, variables.messages.filter(r, {{template "fits"}}).map(r, w[0] + ': ' + r[3])).flatten()
  validations:
    - expression: size(variables.told) == 0
      messageExpression: variables.told.sort().join('; ')
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: hilbert-migrate-{{.Name}}-lost
spec:
  policyName: hilbert-migrate-{{.Name}}-lost
  validationActions: [Warn, Audit]
{{- template "where" .}}
{{- end}}

{{- define "where"}}
  matchResources:
    namespaceSelector:
      matchExpressions:
        - {key: {{.Label}}, operator: NotIn, values: ["false"]}
        - {key: kubernetes.io/metadata.name, operator: NotIn, values: [{{.Exempt}}]}
{{- end}}

{{- define "matches"}}
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        operations: [CREATE]
        resources: [pods]
  matchConditions:
    - name: speaks-of-{{.Name}}
      expression: >-
        {{.Speaks}}
    # Nobody schedules it.
    - name: is-on-no-node
      expression: object.spec.?nodeName.orValue('') == ''
{{- end}}

{{- define "fits" -}}
r[0] == w[0] && (r[1] == '*' ? true : r[1] == '#' ? w[1].matches('^[1-9][0-9]*$') : r[1] == '.' ? w[1].matches('^0?[.][0-9]*[1-9][0-9]*$') :
        r[1] == ',' ? w[1].contains(',') : r[1] == w[1]) && (r[2] == '' || (r[2].startsWith('+') ? r[2].substring(1) in variables.keys :
        !r[2].substring(1).split(' ').exists(k, k in variables.keys)))
{{- end}}

{{- define "words"}}
    - name: labels
      expression: object.metadata.?labels.orValue({})
    - name: annotations
      expression: object.metadata.?annotations.orValue({})
{{- if .Words}}
{{- if .Ours}}
    # Whether words without a domain are {{.Name}}'s.
    - name: ours
      expression: >-
        {{.Ours}}
{{- end}}
    # The pod's words, and their values.
    - name: said
      expression: >-
        {{.Said}}
    - name: keys
      expression: variables.said.map(w, w[0])
{{- end}}
{{- end}}
`))
