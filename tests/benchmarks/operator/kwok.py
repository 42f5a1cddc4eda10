"""Nodes and pods that only seem to be: what kwok is told. Pure."""

from __future__ import annotations

from typing import Any

NODES = 10
LAUNCHER_S = 5  # how long a launcher "runs"
_SIDE_BY_SIDE = 32  # patches of pods; with its default, 4, kwok would be what is measured

Object = dict[str, Any]


def node(number: int) -> Object:
    """A node that has room for everything."""
    return {"metadata": {"name": node_name(number)}}


def node_name(number: int) -> str:
    """Where the pods of a job are."""
    return f"kwok-{number % NODES}"


def configuration() -> list[Object]:
    """Pods run and are Ready as soon as they are there, launchers succeed after LAUNCHER_S, deleted pods are gone."""
    options = {"podPlayStageParallelism": _SIDE_BY_SIDE}
    return [
        {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": options},
        *_stages(),
    ]


def _stages() -> list[Object]:
    young = [_absent(".metadata.deletionTimestamp"), _absent(".status.podIP")]
    running = [
        _absent(".metadata.deletionTimestamp"),
        {"key": ".status.phase", "operator": "In", "values": ["Running"]},
    ]
    deleted = [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}]
    return [
        _stage("pod-ready", young, {"statusTemplate": _READY}),
        _stage("pod-complete", running, {"statusTemplate": _SUCCEEDED}, labels=_LAUNCHER, delay_s=LAUNCHER_S),
        _stage("pod-delete", deleted, {"finalizers": {"empty": True}, "delete": True}),
    ]


def _absent(key: str) -> Object:
    return {"key": key, "operator": "DoesNotExist"}


def _stage(name: str, selector: list[Object], then: Object, labels: Object | None = None, delay_s: int = 0) -> Object:
    spec = {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {"matchLabels": labels or {}, "matchExpressions": selector},
        "delay": {"durationMilliseconds": delay_s * 1000},
        "next": then,
    }
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


_LAUNCHER = {"training.kubeflow.org/job-role": "launcher"}
_READY = """\
{{ $now := Now }}
conditions:
{{ range $type := (list "Initialized" "Ready" "ContainersReady") }}
- {type: {{ $type }}, status: "True", lastTransitionTime: {{ $now | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
{{ if eq .restartPolicy "Always" }}
  started: true
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ else }}
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
{{ end }}
{{ end }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace | Quote }}
phase: Running
startTime: {{ $now | Quote }}
"""
_SUCCEEDED = """\
{{ $now := Now }}
conditions:
- {type: Ready, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  started: false
  restartCount: 0
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
{{ end }}
phase: Succeeded
"""
