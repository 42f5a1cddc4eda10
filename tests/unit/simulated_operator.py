"""The loop around `plan` on a simulated API server, as `agents.operator` runs it but without threads, and mortal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulated_api import NAMESPACE
from simulated_cluster import controller, role
from simulated_job import is_t9k

from agents.job.read import read
from agents.job.status import conditions_of
from agents.operator.actions import Create, CreateKeys, Delete, DeleteWorkers, Emit, Patch, WriteStatus
from agents.operator.errors import AlreadyExistsError, ApiError, NotFoundError, RefusedError
from agents.operator.kinds import (
    BATCH_JOB,
    CONFIG_MAP,
    MPI_JOB_T9K,
    MPI_JOB_V2BETA1,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    VOLCANO_POD_GROUP,
    Kind,
)
from agents.operator.observed import Observed
from agents.operator.plan import plan
from agents.operator.settings import PodSettings
from agents.operator.trim import trim

if TYPE_CHECKING:
    from simulated_api import SimulatedApi

    from agents.operator.actions import Action

Body = dict[str, Any]

TAKEN_KEPT_S = 60.0
FIELDS = {  # of Observed
    BATCH_JOB: "launcher_job",
    CONFIG_MAP: "config_map",
    SECRET: "secret",
    SERVICE: "service",
    SERVICE_ACCOUNT: "service_account",
    ROLE: "role",
    ROLE_BINDING: "role_binding",
    VOLCANO_POD_GROUP: "pod_group",
}
KINDS = {kind.plural: kind for kind in (MPI_JOB_V2BETA1, POD, *FIELDS)}


class SimulatedOperator:
    """Plans one job when there is cause to: an event, what it did itself, a failed request, or the time it named."""

    def __init__(self, api: SimulatedApi, name: str = "pi", settings: PodSettings | None = None) -> None:
        self.api, self.name = api, name
        self.settings = settings or PodSettings(image="mpi-agents:test")
        self.events: list[tuple[str, str, str]] = []
        self.behind_s = 0.0  # how far its clock is behind the API server's
        self.start()

    def start(self) -> None:
        """Begin with no memory, and list."""
        self.cache: dict[str, dict[str, Body]] = {plural: {} for plural in KINDS}
        self.gone: set[str] = set()
        self.taken: dict[tuple[str, str], float] = {}
        self.refused: dict[tuple[str, str], str] = {}
        self.edition: tuple[str, int, Body | None] = ("", 0, None)
        self.again_at: float | None = None
        self.is_due = True
        self._read = dict.fromkeys(KINDS, len(self.api.log))
        for plural in KINDS:
            for body in self.api.all(plural):
                self._put(plural, body)

    # What comes in.

    def deliver(self, plural: str, most: int = 10**6) -> None:
        """Let so many of the watch events of one kind come in."""
        position = self._read[plural]
        while position < len(self.api.log) and most > 0:
            seen = self.api.log[position]
            position += 1
            if seen.kind == plural:
                most -= 1
                (self._remove if seen.is_gone else self._put)(plural, seen.body)
        self._read[plural] = position

    def deliver_all(self) -> None:
        for plural in KINDS:
            self.deliver(plural)

    def repeat(self, plural: str) -> None:
        """Let old events of a kind come in once more."""
        for seen in self.api.log[: self._read[plural]][-6:]:
            if seen.kind == plural:
                (self._remove if seen.is_gone else self._put)(plural, seen.body)

    # What it does.

    def has_cause(self) -> bool:
        next_at = self.next_at()
        return self.is_due or (next_at is not None and next_at <= self.api.now)

    def next_at(self) -> float | None:
        """When there will be cause, whatever comes."""
        times = [at + TAKEN_KEPT_S for at in self.taken.values()] + ([] if self.again_at is None else [self.again_at])
        return min(times, default=None)

    def reconcile(self, crash_after: int | None = None) -> None:
        """Plan once and act; end as if killed after so many actions."""
        self.is_due, self.again_at = False, None
        resource = self.cache["mpijobs"].get(self.name)
        if resource is None:
            self.taken, self.refused = {}, {}
            return
        planned = plan(read(resource), self._observe(resource), self.settings, self.api.now - self.behind_s)
        actions = [one for step in planned.steps for one in step]
        makes_pods = any(isinstance(one, Create) and one.kind in (POD, BATCH_JOB) for one in actions)
        assert not makes_pods or isinstance(planned.steps[0][0], WriteStatus)
        done = 0
        for step in planned.steps:
            failed = False
            for action in step:
                if done == crash_after:
                    self.start()
                    return
                done += 1
                try:
                    self._do(resource, action)
                except ApiError:
                    failed = True
            if failed:
                self.is_due = True
                return
        self.again_at = None if planned.again_at is None else planned.again_at + self.behind_s
        self.is_due |= bool(planned.steps)

    def _do(self, resource: Body, action: Action) -> None:
        if isinstance(action, Delete | DeleteWorkers) and action.reason == "suspended":
            assert not (_is_of_worker(action) and self._saves(resource)), "a worker goes while ranks have time to save"
        match action:
            case Create(kind=kind, body=body):
                self._create(resource, kind, body)
            case CreateKeys(body=body):
                assert "data" not in body
                self._create(resource, SECRET, {**body, "data": {"ssh-privatekey": "a2V5"}})
            case Patch(kind=kind, name=name, body=body):
                self._put(kind.plural, self.api.patch(kind.path(NAMESPACE, name), body))
            case Delete(kind=kind, name=name, uid=uid):
                self._delete(kind, name, uid)
            case DeleteWorkers():
                uid = resource["metadata"]["uid"]
                self.api.delete_collection(POD.path(NAMESPACE), f"mpi-agents/job-uid={uid},mpi-agents/role=worker")
            case WriteStatus(status=status, resource_version=version):
                metadata = {"uid": resource["metadata"]["uid"], "resourceVersion": version}
                kind = MPI_JOB_T9K if is_t9k(resource) else MPI_JOB_V2BETA1
                path = kind.path(NAMESPACE, self.name, "status")
                self._put("mpijobs", self.api.replace(path, {"metadata": metadata, "status": status}))
            case Emit(type=kind_of, reason=reason, message=message):
                self.events.append((kind_of, reason, message))

    def _create(self, resource: Body, kind: Kind, body: Body) -> None:
        name = body["metadata"]["name"]
        try:
            made = self.api.create(kind, NAMESPACE, body)
        except AlreadyExistsError:
            made = self.api.get(kind.path(NAMESPACE, name))
            if controller(made) != resource["metadata"]["uid"]:
                if not controller(made):
                    self.taken[kind.name, name] = self.api.now
                raise
        except RefusedError as error:
            self.refused[kind.name, name] = str(error)
            raise
        self.refused.pop((kind.name, name), None)
        self._put(kind.plural, made)

    def _delete(self, kind: Kind, name: str, uid: str) -> None:
        try:
            answer = self.api.delete(kind.path(NAMESPACE, name), uid, waits=kind is BATCH_JOB)
        except NotFoundError:
            answer = {}
        if answer.get("metadata"):
            self._put(kind.plural, answer)
        else:
            self._remove(kind.plural, {"metadata": {"name": name, "uid": uid}})

    def _saves(self, resource: Body) -> bool:
        """Whether a launcher that it knows of has been told to end and may still, or was not even told."""
        known = [pod["metadata"] for pod in self._observe(resource).pods if role(dict(pod)) == "launcher"]
        found = [self.api.find("pods", metadata["name"]) for metadata in known]
        return any(pod is not None and has_time(pod, self.api.clock()) for pod in found)

    # What it knows.

    def _observe(self, resource: Body) -> Observed:
        metadata = resource["metadata"]
        edition = (metadata["uid"], metadata["generation"], metadata.get("annotations"))
        if self.edition != edition:
            self.edition, self.taken, self.refused = edition, {}, {}
        self.taken = {key: at for key, at in self.taken.items() if self.api.now - at < TAKEN_KEPT_S}
        ours: Body = {}
        for kind, field in FIELDS.items():
            for body in self.cache[kind.plural].values():
                if controller(body) == metadata["uid"]:
                    ours[field] = body
        label = "mpi-agents/job-uid"
        pods = tuple(
            pod
            for pod in self.cache["pods"].values()
            if controller(pod) and pod["metadata"]["labels"].get(label) == metadata["uid"]
        )
        return Observed(resource, pods, taken=frozenset(self.taken), refused=self.refused, **ours)

    def _put(self, plural: str, body: Body) -> None:
        name, uid = body["metadata"]["name"], body["metadata"]["uid"]
        before = self.cache[plural].get(name)
        is_newer = before is None or _version(body) > _version(before)
        if uid not in self.gone and is_newer:
            self.cache[plural][name] = trim(KINDS[plural], body)
            self.is_due = True

    def _remove(self, plural: str, body: Body) -> None:
        name, uid = body["metadata"]["name"], body["metadata"]["uid"]
        self.gone.add(uid)
        if self.cache[plural].get(name, {"metadata": {"uid": ""}})["metadata"]["uid"] == uid:
            del self.cache[plural][name]
            self.is_due = True


def is_being_stopped(job: Body, pod: Body) -> bool:
    """Whether a suspension, also one that the user has taken back since, told this pod to end, or debug mode did."""
    spec = job["spec"]
    pause = spec.get("runMode", {}).get("pause", {}).get("enabled")
    no_success = ("Suspended", "Debugging")
    was_told = any(one["type"] in no_success and one["status"] == "True" for one in conditions_of(job))
    is_suspended = pause or spec.get("runPolicy", {}).get("suspend") or was_told
    return bool(is_suspended) and "deletionTimestamp" in pod["metadata"]


def has_time(pod: Body, now: str) -> bool:
    """Whether a launcher's program runs, within its grace period; a batch Job's pod that is not told yet has none."""
    by = pod["metadata"].get("deletionTimestamp")
    has_ended = all("terminated" in one["state"] for one in pod["status"].get("containerStatuses", [])[:1])
    owner = pod["metadata"]["ownerReferences"][0]
    is_untold = by is None and owner["kind"] == "MPIJob"
    return pod["status"]["phase"] == "Running" and not has_ended and (is_untold or (by is not None and now < by))


def _is_of_worker(action: Delete | DeleteWorkers) -> bool:
    return isinstance(action, DeleteWorkers) or "-worker-" in action.name


def _version(body: Body) -> int:
    return int(body["metadata"]["resourceVersion"])
