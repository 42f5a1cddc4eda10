"""What watches tell of a job, as lines for people. Pure."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

SUCCESSES = frozenset({"Succeeded", "Completed"})  # kubeflow's and T9k's word
# A job has ended, or nothing but an edit lets it begin.
_VERDICTS = SUCCESSES | {"Failed", "ValidationError"}


class Story:
    """Remembers what was told, and tells what is new."""

    def __init__(self) -> None:
        self._pods: dict[str, str] = {}
        self._conditions: set[tuple[str, str, str]] = set()
        self.verdicts: dict[str, str] = {}  # by which condition a job came to its end, by uid

    def line(self, kind: str, event: Object) -> str:
        """A line for an event of a watch on mpijobs, pods or events; "" if there is nothing to say."""
        thing = event["object"]
        if kind == "Pod":
            return self._pod(thing, gone=event["type"] == "DELETED")
        if kind == "MPIJob":
            return self._job(thing)
        about = thing.get("involvedObject", {})
        mark = "" if thing.get("type") == "Normal" else f"{thing.get('type')} "
        return f"event     {about.get('name')}: {mark}{thing.get('reason')}: {thing.get('message')}"

    def _pod(self, pod: Object, *, gone: bool) -> str:
        name, state = pod["metadata"]["name"], "gone" if gone else state_of(pod)
        if self._pods.get(name) == state:
            return ""
        self._pods[name] = state
        return f"pod       {name}: {state}"

    def _job(self, job: Object) -> str:
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        lines = []
        for one in (job.get("status") or {}).get("conditions") or ():
            key = (uid, one["type"], one["status"])
            if one["status"] != "True" or key in self._conditions:
                continue
            self._conditions.add(key)
            lines.append(f"condition {name}: {one['type']}: {one.get('message', '')}")
            if one["type"] in _VERDICTS:
                self.verdicts[uid] = one["type"]
        return "\n".join(lines)


def state_of(pod: Object) -> str:
    """A pod's state in a word or three: kubectl's STATUS, or that it is ready."""
    status = pod["status"]
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    inits = status.get("initContainerStatuses", [])
    for one in [*inits, *status.get("containerStatuses", [])]:
        reason = one["state"].get("waiting", {}).get("reason", "")
        if reason not in {"", "PodInitializing", "ContainerCreating"}:
            return f"{reason}: {one['state']['waiting'].get('message', '')}"
    if status["phase"] == "Pending" and inits:
        done = sum(1 for one in inits if one.get("started") or "terminated" in one["state"])
        return f"init containers {done}/{len(inits)}"
    if status["phase"] == "Running" and any(
        one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ())
    ):
        return "Running, ready"
    return str(status["phase"])


def exit_code(pod: Object, container: str) -> int:
    """How a container ended; 1 if that is not known."""
    for one in pod["status"].get("containerStatuses", ()):
        if one["name"] == container and "terminated" in one["state"]:
            return int(one["state"]["terminated"]["exitCode"])
    return 1
