{{- define "mpi-agents.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "mpi-agents.fullname" -}}
{{- $name := include "mpi-agents.name" . }}
{{- $own := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $own .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "mpi-agents.serviceAccountName" -}}
{{- $own := ternary (include "mpi-agents.fullname" .) "default" .Values.serviceAccount.create }}
{{- default $own .Values.serviceAccount.name }}
{{- end }}

{{- /* Two operators for the same jobs see each other by the lease's name, whatever their releases are called. */}}
{{- define "mpi-agents.lease" -}}
{{- if or .Values.namespaces .Values.selector }}{{ include "mpi-agents.fullname" . }}{{ else }}mpi-agents-operator{{ end }}
{{- end }}

{{- define "mpi-agents.selectorLabels" -}}
app.kubernetes.io/name: {{ include "mpi-agents.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "mpi-agents.labels" -}}
{{ include "mpi-agents.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- /* An image under the registry of the values: (list . "mpi-agents") */}}
{{- define "mpi-agents.under" -}}
{{- $root := index . 0 }}
{{- $registry := default $root.Values.global.imageRegistry $root.Values.image.registry | trimSuffix "/" }}
{{- if $registry }}{{ $registry }}/{{ end }}{{ index . 1 }}
{{- end }}

{{- define "mpi-agents.image" -}}
{{- include "mpi-agents.under" (list . .Values.image.repository) -}}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}
