{{- /*
What the operator may do where jobs run. Nobody can grant what they have not: the launchers' Roles are why it may exec
into pods and read them one by one.
*/}}
{{- define "mpi-agents.rules" -}}
- apiGroups: [kubeflow.org]
  resources: [mpijobs]
  verbs: [get, list, watch, delete]  # delete: ttlSecondsAfterFinished
- apiGroups: [kubeflow.org]
  resources: [mpijobs/status]
  verbs: [update]
- apiGroups: [kubeflow.org]
  resources: [mpijobs/finalizers]
  verbs: [update]  # owner references that block deletion, where that is enforced (OpenShift)
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete, deletecollection]
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [get, create]
- apiGroups: [""]
  resources: [configmaps, services, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- with .Values.jobs.gangScheduler }}
- apiGroups: [{{ ternary "scheduling.volcano.sh" "scheduling.x-k8s.io" (eq . "volcano") }}]
  resources: [podgroups]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- end }}
