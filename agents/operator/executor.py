"""Carries out a plan's actions, and puts the API server's answers into the caches."""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from concurrent.futures import Executor as Pool
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from agents.job.conditions import Type, find, is_true
from agents.job.json_object import Body, part
from agents.job.model import WORKER, KeyType, kind_of
from agents.job.status import Event, conditions_of, format_time
from agents.kube.api import Api
from agents.kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError, RejectedError
from agents.kube.kinds import BATCH_JOB, POD, Kind
from agents.operator.actions import Action, Create, Delete, DeleteWorkers, Patch, WriteStatus
from agents.operator.caches import Caches, controller, group_of, key_of, owner
from agents.operator.metrics import Metrics
from agents.operator.objects.names import JOB_UID, ROLE, worker_selector
from agents.operator.recorder import Recorder
from agents.operator.trim import Outline, job_uid, whole_job, written

Wanted = tuple[str, str]  # kind and name of an object that a job wants

_LOG = logging.getLogger(__name__)
_SIDE_BY_SIDE = 8  # requests of all jobs' larger steps together
_ONE_BY_ONE_MAX = 2  # actions of a step that are not worth a thread's waking


@dataclass(slots=True)
class Memory:
    """State of one job that is not in the caches."""

    uid: str
    seen_at: float  # when it was first planned, by our clock
    edition: tuple[int, Body] | None = None  # the job's generation and annotations
    name_conflicts: dict[Wanted, float] = field(default_factory=dict)  # → when it was found so, by the executor's clock
    rejected: dict[Wanted, str] = field(default_factory=dict)  # → the API server's message
    rounds: int = 0  # plans in a row that had something to do
    pods: int = 0  # the most that it has had
    is_large: bool = False  # one request at a time: each takes ten times its bytes


class Executor:
    """Executes actions; shared by all workers."""

    def __init__(
        self, api: Api, caches: Caches, recorder: Recorder, metrics: Metrics, pool: Pool | None = None
    ) -> None:
        """`pool`: what sends requests side by side."""
        self._api, self._caches, self._recorder, self._metrics = api, caches, recorder, metrics
        self._pool = pool or ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="request")

    def whole(self, outline: Body) -> Body:
        """Return a large job as it is now. Raises ApiError."""
        metadata, kind = outline["metadata"], self._caches.jobs(group_of(outline)).kind
        path, selector = kind.path(metadata["namespace"]), f"metadata.name={metadata['name']}"
        for body in self._api.list(path, keep=whole_job, fieldSelector=selector).get("items") or ():
            return dict(body)  # by list: the role may not allow get
        raise NotFoundError(f"{kind.name} {metadata['name']} has just been deleted", 404)

    def carry_out(self, resource: Body, memory: Memory, step: Sequence[Action], now: float) -> list[ApiError]:
        """Carry out one step's actions; return why some failed."""
        if len(step) <= _ONE_BY_ONE_MAX or memory.is_large:
            results = [self._tried(resource, memory, action, now) for action in step]
        else:
            first, *rest = step
            others = [self._pool.submit(self._tried, resource, memory, action, now) for action in rest]
            results = [self._tried(resource, memory, first, now), *(other.result() for other in others)]
        return [error for error in results if error is not None]

    def _tried(self, resource: Body, memory: Memory, action: Action, now: float) -> ApiError | None:
        key = key_of(resource)
        try:
            self._do(resource, memory, action, now)
        except ApiError as error:
            about = {"job": str(key), "code": error.code}
            _LOG.info("job %s: %s failed: %s", key, named(action), error, extra=about)
            return error
        return None

    def _do(self, resource: Body, memory: Memory, action: Action, now: float) -> None:
        namespace = resource["metadata"]["namespace"]
        match action:
            case Create():
                self._create(resource, memory, action, now)
            case Patch(kind=kind, name=name, body=body):
                self._caches.store(kind).put(self._api.patch(kind.path(namespace, name), body))
            case Delete():
                self._delete(namespace, action)
            case DeleteWorkers():
                self._delete_workers(resource, action, now)
            case WriteStatus():
                self._write_status(resource, action)
            case Event():
                self._recorder.emit(resource, action)

    def _create(self, resource: Body, memory: Memory, action: Create, now: float) -> None:
        namespace, kind, name = resource["metadata"]["namespace"], action.kind, action.name
        wanted = (kind.name, name)
        keys = {} if action.key_type is None else {"data": new_key_pair(action.key_type)}
        try:
            made = self._api.create(kind, namespace, {**action.body, **keys})
        except AlreadyExistsError:
            made = self._existing(kind, namespace, name)
            if controller(made) != memory.uid:
                if not _is_of_earlier_job(made, resource):
                    memory.name_conflicts[wanted] = now
                    raise  # later steps, pods at worst, would use someone else's object
                raise ConflictError(f"{kind.name} {name} of an earlier job is still being deleted") from None
            if not job_uid(made):  # then it is not watched
                made = self._labelled(kind, namespace, name, memory)
        except RejectedError as error:
            memory.rejected[wanted] = str(error)
            raise
        self._caches.store(kind).put(made)
        memory.rejected.pop(wanted, None)
        memory.name_conflicts.pop(wanted, None)

    def _labelled(self, kind: Kind, namespace: str, name: str, memory: Memory) -> Body:
        label = {"metadata": {"labels": {JOB_UID: memory.uid}}}
        try:
            return self._api.patch(kind.path(namespace, name), label)
        except RejectedError as error:  # of most kinds the chart lets us change none
            lost = f"it exists without its label {JOB_UID}={memory.uid}, by which the operator finds it: {error}"
            memory.rejected[kind.name, name] = lost
            raise

    def _existing(self, kind: Kind, namespace: str, name: str) -> Body:
        if not kind.is_secret:
            return self._api.get(kind.path(namespace, name))
        # Of a Secret only the metadata, as watched; the role may allow list and not get.
        path, selector = kind.path(namespace), f"metadata.name={name}"
        found = self._api.list(path, partial=True, fieldSelector=selector).get("items") or ()
        for body in found:
            return dict(body)
        raise ConflictError(f"{kind.name} {name} has just been deleted")

    def _delete(self, namespace: str, action: Delete) -> None:
        store = self._caches.store(action.kind)
        try:
            # A batch Job is there until its pods are gone: no other launcher is created during the last seconds of one.
            waits = action.kind == BATCH_JOB
            path = store.kind.path(namespace, action.name)
            answer = self._api.delete(path, action.uid, waits=waits, grace_s=action.grace_s)
        except NotFoundError:
            store.remove(namespace, action.name, action.uid)
            return
        if answer.get("kind") == action.kind.name:
            store.put(answer)  # it is still there, until its grace period is over
        else:
            store.remove(namespace, action.name, action.uid)

    def _delete_workers(self, resource: Body, action: DeleteWorkers, now: float) -> None:
        metadata = resource["metadata"]
        store = self._caches.store(POD)
        pods = store.of_job(metadata["uid"])
        workers = [pod for pod in pods if part(pod, "metadata", "labels").get(ROLE) == WORKER]
        newest = max((int(pod["metadata"]["resourceVersion"]) for pod in workers), default=0)
        selector = worker_selector(metadata["uid"])
        self._api.delete_collection(POD.path(metadata["namespace"]), selector, newest, action.grace_s)
        store.mark_deleted(workers, format_time(now))

    def _write_status(self, resource: Body, action: WriteStatus) -> None:
        """Replace the status alone: the API server keeps everything else."""
        metadata, jobs = resource["metadata"], self._caches.jobs(group_of(resource))
        kind = jobs.kind
        body: Body = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
                "resourceVersion": action.resource_version,
            },
        }
        path = kind.path(metadata["namespace"], metadata["name"], "status")
        if not action.status:  # and none in the body: by training-operator's definition a status is never empty
            self._api.replace(path, body, partial=True, is_dry=True)
            return
        body["status"] = action.status
        with jobs.writing(metadata["uid"], action.status):
            known = jobs.get(metadata["namespace"], metadata["name"])
            if isinstance(known, Outline) and known["metadata"]["uid"] == metadata["uid"]:
                answer = self._api.replace(path, body, action.manager, partial=True)
                after: Body = written(known, answer["metadata"], action.status)
            else:
                after = self._api.replace(path, body, action.manager)
            jobs.put(after, notifies=False)  # the plan continues, or is retried when it is due
        self._count(resource, {**resource, "status": action.status})

    def _count(self, before: Body, after: Body) -> None:
        was, now = conditions_of(before), conditions_of(after)
        if find(now, Type.CREATED) and not find(was, Type.CREATED):  # T9k's begins as False
            self._metrics.jobs_created.inc()
        for condition, counter in (
            (Type.SUCCEEDED, self._metrics.jobs_successful),
            (Type.FAILED, self._metrics.jobs_failed),
        ):
            if is_true(now, condition) and not is_true(was, condition):
                counter.inc()


def named(action: Action) -> str:
    """Return what an action does to what."""
    match action:
        case Create(kind=kind, name=name):
            return f"create {kind.name} {name}"
        case Patch(kind=kind, name=name):
            return f"patch {kind.name} {name}"
        case Delete(kind=kind, name=name):
            return f"delete {kind.name} {name}"
        case DeleteWorkers():
            return "delete all workers"
        case WriteStatus(status=status):
            return "write the status" if status else "ask for the version"
        case Event(type=type_):
            return f"record a {type_} event"


def _is_of_earlier_job(body: Body, resource: Body) -> bool:
    """Whether an object is of an earlier job of this name: the garbage collector is about to take it."""
    by = owner(body)
    wanted = (group_of(resource), kind_of(resource), resource["metadata"]["name"])
    return (group_of(by), by.get("kind"), by.get("name")) == wanted


def new_key_pair(key_type: KeyType) -> dict[str, str]:
    """Return the `data` of a Secret of type kubernetes.io/ssh-auth, as mpi-operator v0.8.2 names its keys.

    They go nowhere else: not into a log, an argument or a cache. ECDSA is on P-521, in the form that kubeflow writes
    and the oldest OpenSSH reads.
    """
    # 11 MiB and 30 ms, which an operator without SSH jobs does not need.
    from cryptography.hazmat.primitives.asymmetric.ec import SECP521R1, generate_private_key  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat  # noqa: PLC0415

    private: bytes
    if key_type is KeyType.ECDSA:
        ecdsa = generate_private_key(SECP521R1())
        private = ecdsa.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        public = ecdsa.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    else:
        ed25519 = Ed25519PrivateKey.generate()
        private = ed25519.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = ed25519.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    pair = {"ssh-privatekey": private, "ssh-publickey": public + b"\n"}
    return {name: base64.b64encode(content).decode() for name, content in pair.items()}
