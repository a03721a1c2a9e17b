package migrate

import (
	"encoding/json"
	"fmt"
	"strings"

	"hilbert.dev/hilbert/api/spec"
)

const yunikornDomain = "yunikorn.apache.org/"

func yunikorn() system {
	return system{
		name: "yunikorn", schedulers: []string{"yunikorn"}, prefixes: []string{yunikornDomain}, groups: []string{"yunikorn.apache.org"}, pod: yunikornPod,
	}
}

// yunikornPod: an application is a gang where it names task groups. YuniKorn's plain labels are its own only on pods that name it as scheduler.
func yunikornPod(p *pod, named bool) {
	queues, apps := []string{yunikornDomain + "queue"}, []string{yunikornDomain + "app-id"}
	if named {
		queues, apps = append(queues, "queue"), append(apps, "applicationId")
	}
	for _, key := range queues {
		if w, ok := p.take(key); ok {
			path := strings.Split(w.value, ".")
			p.run.inQueue(p.of, p.system.name, w, path[len(path)-1])
		}
	}
	app, hasApp := word{}, false
	for _, key := range apps {
		if w, ok := p.take(key); ok {
			app, hasApp = w, true
		}
	}
	members := p.taskGroups()
	group, inGroup := p.take(yunikornDomain + "task-group-name")
	switch {
	case hasApp && (inGroup || members > 0):
		p.inGang(app, app.value)
		p.gang.min = members
	case hasApp:
		p.lost(app, "pods without task groups are placed one by one")
	case inGroup:
		p.wrong(group, "a task group belongs to an application; add "+yunikornDomain+"app-id")
	}
	if inGroup {
		p.setLabel(spec.LabelSubgroup, group.value)
		p.say(Translated, group, spec.LabelSubgroup+": "+group.value+"; members of a subgroup are packed together")
	}
	p.placeholderTimeout()
	p.takeLost(map[string]string{
		yunikornDomain + "user.info":   "quota is by namespace, not by user",
		yunikornDomain + "app.user":    "quota is by namespace, not by user",
		yunikornDomain + "placeholder": "written by YuniKorn",
	})
}

// taskGroups adds up what the application needs before it may start.
func (p *pod) taskGroups() (members int) {
	w, ok := p.take(yunikornDomain + "task-groups")
	if !ok {
		return 0
	}
	var groups []struct {
		Name      string
		MinMember int
	}
	if err := json.Unmarshal([]byte(w.value), &groups); err != nil {
		p.wrong(w, "it is no JSON list of task groups: "+err.Error())
		return 0
	}
	for _, g := range groups {
		members += g.MinMember
	}
	if members < 1 {
		p.wrong(w, "no task group has members (minMember)")
		return 0
	}
	p.say(Translated, w, fmt.Sprintf("the PodGroup needs %d members, of all task groups together; no placeholder pods run", members))
	if len(groups) > 1 {
		p.lost(w, "that each task group has its own minMember")
	}
	return members
}

func (p *pod) placeholderTimeout() {
	w, ok := p.take(yunikornDomain + "schedulingPolicyParameters")
	if !ok {
		return
	}
	for parameter := range strings.FieldsSeq(w.value) {
		key, value, _ := strings.Cut(parameter, "=")
		switch {
		case key == "placeholderTimeoutInSeconds":
			p.gang.timeout = value + "s"
			p.say(Translated, w, spec.AnnotationTimeout+": "+value+"s on the PodGroup")
		case key == "gangSchedulingStyle" && value == "Hard":
			p.say(Translated, w, "gangs are whole or not at all")
		case key == "gangSchedulingStyle" && value == "Soft":
			p.lost(w, "Soft: a gang that timed out is not placed pod by pod")
		default:
			p.wrong(w, "the parameter "+parameter+" is not known")
		}
	}
}
