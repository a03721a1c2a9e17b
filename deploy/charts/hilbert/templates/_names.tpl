{{- /* The name of the image: a tag or digest of its own (tag, digest), else the chart's. */ -}}
{{- define "hilbert.image" -}}
{{- $image := .image -}}
{{- $name := ternary $image.name (printf "%s/%s" $image.registry $image.name) (empty $image.registry) -}}
{{- $tag := .tag | default $image.tag | default .appVersion -}}
{{- $digest := .digest | default (ternary "" $image.digest (not (empty .tag))) -}}
{{- if $digest -}}{{ $name }}@{{ $digest }}{{- else -}}{{ $name }}:{{ $tag }}{{- end -}}
{{- end -}}

{{- /* The watchdog's image: what its values say, else the one with which it runs, else the chart's. So an upgrade changes it only where people say so. One of another registry is not kept. */ -}}
{{- define "hilbert.watchdogImage" -}}
{{- $own := .Values.watchdog.image -}}
{{- $image := include "hilbert.image" (dict "image" .Values.image "appVersion" .Chart.AppVersion "tag" $own.tag "digest" $own.digest) -}}
{{- if not (or $own.tag $own.digest) -}}
{{- $name := regexReplaceAll "(@|:)[^/]*$" $image "" -}}
{{- range dig "spec" "template" "spec" "containers" list (lookup "apps/v1" "DaemonSet" "hilbert-system" "hilbert-watchdog") -}}
{{- if eq (regexReplaceAll "(@|:)[^/]*$" .image "") $name -}}{{- $image = .image -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $image -}}
{{- end -}}

{{- /* Labels of every object, beside its app.kubernetes.io/name. None is a selector, so they may change. */ -}}
{{- define "hilbert.labels" -}}
app.kubernetes.io/part-of: hilbert
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* The configuration of a role: the chart's own part, and what values say over it. */ -}}
{{- define "hilbert.config" -}}
{{- $head := dict "apiVersion" "config.hilbert.dev/v1alpha1" "kind" "HilbertConfiguration" -}}
{{- mustMergeOverwrite $head (deepCopy .base) (deepCopy .values) | toYaml -}}
{{- end -}}

{{- /* What helm makes before agents go, in the order of the weights, and deletes when all of it has succeeded: before it uninstalls a release with agents; before it rolls back to one
without; and before it upgrades to one without, if agents are there now, which their ConfigMap says until the upgrade deletes it. */ -}}
{{- define "hilbert.removal" -}}
{{- $events := list "pre-delete" -}}
{{- if not .root.Values.agent.enabled -}}
{{- $events = list "pre-rollback" -}}
{{- if lookup "v1" "ConfigMap" "hilbert-system" "hilbert-agent" -}}
{{- $events = append $events "pre-upgrade" -}}
{{- end -}}
{{- end -}}
helm.sh/hook: {{ join "," $events }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{- /* The names that certificates of schedulers and of the leader have, and where schedulers find it. */ -}}
{{- define "hilbert.dispatchers" -}}hilbert-dispatchers.hilbert-system.svc{{- end -}}
{{- define "hilbert.schedulerNames" -}}
{{- .Values.schedulers.names | default (list "hilbert-scheduler.hilbert-system.svc") | toJson -}}
{{- end -}}

{{- /* For whom schedulers' tokens are: nobody else takes them, and the leader takes no other. */ -}}
{{- define "hilbert.tokenAudience" -}}hilbert-dispatchers.hilbert-system.svc{{- end -}}

{{- /* Certificates for schedulers in processes of their own, as files. */ -}}
{{- define "hilbert.peers" -}}
tlsCertFile: /etc/hilbert-peers/tls.crt
tlsPrivateKeyFile: /etc/hilbert-peers/tls.key
caFile: /etc/hilbert-peers/ca.crt
{{- end -}}

{{- /* Whether agents move interrupts: then they need the host's /proc/irq, for a pod's own is read-only. What cleans up after them has it in any case. */ -}}
{{- define "hilbert.movesInterrupts" -}}
{{- if dig "node" "quietCPUs" "interrupts" false .Values.agent.config -}}true{{- end -}}
{{- end -}}

{{- /* Whether agents limit what reclaimed pods send: then they and what cleans up after them need the host's network, a BPF file system and the rights for programs. */ -}}
{{- define "hilbert.limitsNetwork" -}}
{{- if dig "node" "lending" "network" "enabled" false .Values.agent.config -}}true{{- end -}}
{{- end -}}

{{- /* The directories of log files that agents see: those whose page cache they drop, each up to its first wildcard. */ -}}
{{- define "hilbert.logDirectories" -}}
{{- if gt (int64 (dig "node" "memory" "logs" "bytesPerSecond" 0 .Values.agent.config)) 0 -}}
{{- range uniq (dig "node" "logDirectories" (list "/var/log/pods") .Values.agent.config) }}
- {{ regexReplaceAll "/[^/]*[*?\\[].*$" . "" | quote }}
{{- end }}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{- /* The directory above that of the agent's plugins, which the agent needs to see them; empty where it sees it anyway (/run/hilbert). That above, because a directory that
the kubelet makes would not be root's alone, and the agent would refuse it; on a node without plugins it is not there. */ -}}
{{- define "hilbert.pluginsParent" -}}
{{- $plugins := dig "node" "plugins" dict .Values.agent.config -}}
{{- $directory := clean (dig "directory" "/run/hilbert/plugins" $plugins) -}}
{{- if and (dig "enabled" false $plugins) (not (hasPrefix "/run/hilbert/" $directory)) -}}
{{- $depth := sub (len (splitList "/" $directory)) 1 -}}
{{- if or (not (isAbs $directory)) (lt $depth 3) (and (lt $depth 4) (not (hasPrefix "/run/" $directory))) -}}
{{- fail (printf "agent.config.node.plugins.directory: %s: the directory above is mounted into the agent, so it must be the plugins' alone; write for example /run/fpga/plugins or /var/lib/fpga/plugins" $directory) -}}
{{- end -}}
{{- dir $directory -}}
{{- end -}}
{{- end -}}
