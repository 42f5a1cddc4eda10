{{- /* API groups of the MPIJobs that the operator runs. */}}
{{- define "mpi-agents.groups" -}}
[kubeflow.org{{ if .Values.t9k.enabled }}, batch.tensorstack.dev{{ end }}]
{{- end }}

{{- /*
The operator's rights in the jobs' namespaces. It has pods/exec only to grant it to launchers, as a right can be granted only
by one who has it. Kubernetes deletes a job's objects with the job; the operator deletes pods before, and the launcher's
rights when a job changes to ssh.
*/}}
{{- define "mpi-agents.rules" -}}
{{- $groups := include "mpi-agents.groups" . }}
- apiGroups: {{ $groups }}
  resources: [mpijobs]
  verbs: [list, watch, delete]  # delete: ttlSecondsAfterFinished
- apiGroups: [mpi-agents.io]
  resources: [virtualclusters]
  verbs: [list, watch]
- apiGroups: {{ $groups }}
  resources: [mpijobs/status]
  verbs: [update]
- apiGroups: [mpi-agents.io]
  resources: [virtualclusters/status]
  verbs: [update]
- apiGroups: [mpi-agents.io]
  resources: [virtualclusters/finalizers]
  verbs: [update]
- apiGroups: {{ $groups }}
  resources: [mpijobs/finalizers]
  verbs: [update]  # owner references that block deletion, where that is enforced (OpenShift)
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete, deletecollection]
{{- if .Values.rbac.launcherRoles }}
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [get, create]
{{- end }}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [list, watch, create]  # keys of ssh jobs; only their metadata is requested
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, delete]
{{- if .Values.rbac.launcherRoles }}
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch, delete]
{{- else }}
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [list, watch]
{{- end }}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- with .Values.jobs.gangScheduler }}
{{- $podGroups := dict "volcano" "scheduling.volcano.sh" "t9k" "scheduler.tensorstack.dev" }}
- apiGroups: [{{ get $podGroups . | default "scheduling.x-k8s.io" }}]
  resources: [podgroups]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- end }}

{{- /* To detect other operators for MPIJobs; only an operator for all namespaces looks for them. */}}
{{- define "mpi-agents.otherOperators" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "mpi-agents.lease" . | quote }}, mpi-operator, 1ca428e5.training-operator.kubeflow.org]
  verbs: [list]
- apiGroups: [apps]
  resources: [deployments]
  resourceNames: [mpi-operator, training-operator]
  verbs: [list]
{{- end }}
