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
- --lease-name={{ include "mpi-agents.fullname" . }}
- --lease-namespace={{ .Release.Namespace }}
- --port={{ .Values.metrics.port }}
- --log-level={{ .Values.operator.logLevel }}
{{- with .Values.jobs.clusterDomain }}
- --cluster-domain={{ . }}
{{- end }}
{{- with .Values.jobs.gangScheduler }}
- --gang-scheduler={{ . }}
{{- end }}
{{- with .Values.jobs.waitTimeout }}
- --wait-timeout={{ . }}
{{- end }}
{{- with .Values.operator.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}
