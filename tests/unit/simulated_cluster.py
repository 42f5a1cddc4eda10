"""What a cluster does with an operator's objects, a step at a time: kubelet, Job controller, garbage collector."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulated_api import SimulatedApi

Body = dict[str, Any]

PLURALS = (
    "pods",
    "jobs",
    "configmaps",
    "secrets",
    "services",
    "serviceaccounts",
    "roles",
    "rolebindings",
    "podgroups",
)


def controller(body: Body) -> str:
    owners = body["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")


def role(pod: Body) -> str:
    return str(pod["metadata"].get("labels", {}).get("mpi-agents/role", ""))


def make_of(pod: Body) -> dict[str, str]:
    """What a pod was made with: by ssh the keys are mounted, and T9k's have no other dialect."""
    made = {"transport": "ssh" if any("secret" in one for one in pod["spec"]["volumes"]) else "exec"}
    if "training.kubeflow.org/job-name" in pod["metadata"]["labels"]:
        made["dialect"] = "v1" if "mpi-job-name" in pod["metadata"]["labels"] else "v2beta1"
    if made["transport"] == "ssh":
        made["ssh-port"] = json.loads(pod["metadata"]["annotations"]["mpi-agents/settings"])["sshPort"]
    return made


class Cluster:
    def __init__(self, api: SimulatedApi) -> None:
        self.api = api
        self.dead: set[str] = set()  # uids of pods whose node does not answer

    def pods(self, wanted: str = "", *phases: str) -> list[Body]:
        found = [pod for pod in self.api.all("pods") if role(pod) == wanted or not wanted]
        return [pod for pod in found if not phases or pod["status"]["phase"] in phases]

    def run(self, pod: Body) -> None:
        """A pod's containers are started; a worker is ready then."""
        names = [one["name"] for one in pod["spec"]["containers"]]
        state = {"running": {"startedAt": self.api.clock()}}
        status = {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": name, "ready": True, "restartCount": 0, "state": state} for name in names],
        }
        self.api.changed("pods", {**pod, "spec": {**pod["spec"], "nodeName": "node-1"}, "status": status})

    def end(self, pod: Body, code: int, reason: str = "") -> None:
        """A pod's program ends, or it is evicted (`reason`). The kubelet restarts it where the pod's policy says so."""
        status = copy.deepcopy(pod["status"])
        policy = pod["spec"].get("restartPolicy", "Always")
        again = not reason and (policy == "Always" or (policy == "OnFailure" and code != 0))
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": self.api.clock()}
        for one in status.get("containerStatuses", []):
            if again:
                one["restartCount"] += 1
                one["lastState"] = {"terminated": ended}
            else:
                one["state"], one["ready"] = {"terminated": ended}, False
        if not again:
            status["phase"] = "Failed" if code or reason else "Succeeded"
            status["conditions"] = [{"type": "Ready", "status": "False"}]
        if reason:
            status |= {"reason": reason, "message": "The node was low on resource: memory."}
        self.api.changed("pods", {**pod, "status": status})

    def sidecar_lingers(self, pod: Body, code: int) -> None:
        """The launcher's program ends, and a container that is not the user's keeps the pod Running."""
        policy = pod["spec"].get("restartPolicy")
        if policy == "Always" or (code and policy == "OnFailure"):
            self.end(pod, code)
            return
        state = {"terminated": {"exitCode": code, "finishedAt": self.api.clock()}}
        own = [{**one, "state": state} for one in pod["status"]["containerStatuses"]]
        extra = {"name": "istio-proxy", "ready": True, "restartCount": 0, "state": {"running": {}}}
        self.api.changed("pods", {**pod, "status": {**pod["status"], "containerStatuses": [*own, extra]}})

    def finish_deletions(self) -> None:
        """The kubelet says that deleted pods have ended, those of dead nodes excepted."""
        for pod in self.pods():
            if "deletionTimestamp" in pod["metadata"] and pod["metadata"]["uid"] not in self.dead:
                self.api.objects.end(pod)

    def force_deletions(self) -> None:
        """A user deletes pods of dead nodes by force."""
        self.dead.clear()
        self.finish_deletions()

    def go_on(self) -> None:
        """All of what the cluster does by itself."""
        self.finish_deletions()
        self.api.objects.collect()
        self.run_jobs()

    def run_jobs(self) -> None:
        """The Job controller: one pod at a time, so many tries as backoffLimit says, and what became of them."""
        for job in self.api.all("jobs"):
            if "deletionTimestamp" not in job["metadata"]:
                self._run_job(job)

    def _run_job(self, job: Body) -> None:
        status = copy.deepcopy(job.get("status", {}))
        if any(one["status"] == "True" for one in status.get("conditions", [])):
            return
        uid = job["metadata"]["uid"]
        owned = [pod for pod in self.pods() if controller(pod) == uid]
        failed = [pod for pod in owned if pod["status"]["phase"] == "Failed"]
        status["failed"] = len(failed)
        if any(pod["status"]["phase"] == "Succeeded" for pod in owned):
            status |= {"succeeded": 1, "completionTime": self.api.clock()}
            status["conditions"] = [{"type": "Complete", "status": "True"}]
        elif len(failed) > job["spec"].get("backoffLimit", 1):
            words = "Job has reached the specified backoff limit"
            failure = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": words}
            status["conditions"] = [failure | {"lastTransitionTime": self.api.clock()}]
        elif not any(pod["status"]["phase"] in ("Pending", "Running") for pod in owned):
            self._make_pod(job, len(owned))
        if status != job.get("status"):
            self.api.changed("jobs", {**job, "status": status})

    def _make_pod(self, job: Body, number: int) -> None:
        template = copy.deepcopy(job["spec"]["template"])
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        owner = {"kind": "Job", "name": name, "uid": uid, "controller": True}
        metadata = {
            "name": f"{name}-{uid}-{number}",
            **template["metadata"],
            "ownerReferences": [owner],
        }
        self.api.add("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
