{{- /* The operator's own command line: `mpi-operator --help`. */}}
{{- define "mpi-agents.arguments" -}}
- --image={{ include "mpi-agents.image" . }}
- --image-pull-policy={{ .Values.image.pullPolicy }}
{{- range concat .Values.global.imagePullSecrets .Values.jobs.imagePullSecrets | uniq }}
- --image-pull-secret={{ . }}
{{- end }}
{{- range .Values.namespaces }}
- --namespace={{ . }}
{{- end }}
{{- with .Values.selector }}
- --selector={{ . }}
{{- end }}
- --adopt={{ .Values.adopt }}
- --other-operator-namespace={{ join "," .Values.otherOperatorNamespaces }}
- --t9k={{ ternary "auto" "off" .Values.t9k.enabled }}
- --lease-name={{ include "mpi-agents.lease" . }}
- --lease-namespace={{ .Release.Namespace }}
- --port={{ .Values.metrics.port }}
- --log-level={{ .Values.operator.logLevel }}
- --log-format={{ .Values.operator.logFormat }}
{{- /* Helm's numbers are floats, and a million is 1e+06 as text. */}}
- --run-as-user={{ .Values.jobs.runAsUser | default 0 | int64 | default "none" }}
{{- if not .Values.jobs.workerAgent }}
- --no-worker-agent
{{- end }}
{{- range .Values.jobs.tools }}
- --tool={{ . }}
{{- end }}
- --program-delivery={{ .Values.jobs.programDelivery }}
{{- with .Values.jobs.kubectlImage }}
- --kubectl-image={{ . }}
{{- end }}
{{- with .Values.jobs.cpuLimit }}
- --agent-cpu-limit={{ . }}
{{- end }}
{{- with .Values.jobs.clusterDomain }}
- --cluster-domain={{ . }}
{{- end }}
{{- with .Values.jobs.gangScheduler }}
- --gang-scheduling={{ . }}
{{- end }}
{{- with .Values.jobs.waitTimeout }}
- --wait-timeout={{ . }}
{{- end }}
{{- with .Values.operator.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}
