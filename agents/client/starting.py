"""What holds a pod back whose status only says that it starts, and what to do about a pod that is not ready. Pure.

Texts are the kubelet's (kubernetes, pkg/kubelet/events/event.go) and the scheduler's
(pkg/scheduler/framework/plugins: each plugin's ErrReason).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agents.common.not_ready import NotReady, Tolerance
from agents.common.pods import Pod
from agents.common.text import one_line
from agents.job.json_object import Object, part

# Events of a pod whose containers do not start yet; of a later step than these there is nothing to tell.
_HINTS = {
    "FailedMount": "create the Secret, ConfigMap or volume that it names, or correct the name",
    "FailedAttachVolume": "does another pod on another node use the volume?",
    "FailedMapVolume": "does the node have the volume's device?",
    "FailedCreatePodSandBox": "see whether the node's network plugin and container runtime work",
}
_LATER = frozenset({"Pulling", "Pulled", "Created", "Started", "BackOff"})
_WORKER_AGENT = "worker-agent"  # our operator's sidecar, which is ready when the worker's sshd answers
_ASK_FOR_LESS = "Ask for less (requests, fewer workers), or wait for or add nodes."
_UNSCHEDULABLE = tuple(
    (re.compile(pattern), remedy)
    for pattern, remedy in (
        (
            r"persistentvolumeclaim \S+ not found",
            "Create the PersistentVolumeClaim in the job's namespace, or correct its name.",
        ),
        (
            r"unbound immediate PersistentVolumeClaims",
            "The claim has no volume: does its StorageClass exist and make one? `kubectl describe pvc` tells more.",
        ),
        (
            r"Insufficient (?!cpu|memory|ephemeral-storage|pods|hugepages)[^\s,.]+[./]",
            "Ask for fewer devices, or wait for or add nodes with them; without its device plugin a node offers none.",
        ),
        (r"Insufficient|Too many pods", _ASK_FOR_LESS),
        (
            r"didn't match Pod's node affinity/selector",
            "No node has the labels of nodeSelector or nodeAffinity: correct them, or label a node.",
        ),
        (
            r"untolerated taint",
            "Nodes have a taint: add a toleration for it to the pod templates, or use other nodes.",
        ),
        (
            r"didn't match pod (?:anti-)?affinity|topology spread constraints|free ports",
            "The pods' affinity, spread constraints or host ports leave no node: relax them, or add nodes.",
        ),
    )
)


def without_sshd(why: NotReady | None, pod: Pod) -> NotReady | None:
    """Return why a pod is not ready: of a worker whose agent alone is not, that no sshd answers."""
    unready = {one.name for one in pod.containers if not one.ready and (one.sidecar or not one.init)}
    if why is None or why.kind != "unready" or unready != {_WORKER_AGENT}:
        return why
    hint = "its command must start sshd (on ssh.port, else 22 or 2222); with mpi-agents, transport: exec needs none"
    return NotReady("sshd", "running, no sshd answers in it", hint=hint)


def held_back(why: NotReady, uid: str, events: Sequence[Object]) -> NotReady:
    """Return why a pod is not ready, by its last event if its status knows less than that."""
    if why.kind not in {"pull", "accept"}:
        return why
    known = (event for event in reversed(events) if part(event, "involvedObject").get("uid") == uid)
    last = next((event for event in known if event.get("reason") in _HINTS.keys() | _LATER), {})
    reason = str(last.get("reason"))
    if reason not in _HINTS:
        return why
    message = one_line(str(last.get("message") or ""))
    return NotReady(reason, f"can't start ({reason})", message, Tolerance.GRACE, _HINTS[reason])


def is_of_event(why: NotReady) -> bool:
    """Return whether a pod's event says why it is not ready: its kind is then the event's reason."""
    return why.kind in _HINTS


def has_never_run(why: NotReady) -> bool:
    """Return whether a pod that is not ready for this reason has not run at all."""
    return is_of_event(why) or why.kind in {"unschedulable", "image", "never", "config"}


def remedy(why: NotReady, pod: str) -> str:
    """Return what to do about a pod of this name that is not ready; "" of one that only needs time."""
    if why.kind == "unschedulable":
        return next((text for pattern, text in _UNSCHEDULABLE if pattern.search(why.detail)), _ASK_FOR_LESS)
    if why.kind == "gated":
        return "Whoever set the gate, such as a queue, removes it."
    if not why.hint:
        return ""
    where = f" (pod {pod})" if pod and "kubectl" in why.hint else ""
    return f"{why.hint[0].upper()}{why.hint[1:]}{where}{'' if why.hint.endswith('?') else '.'}"
