"""Carries out what a plan asks for, and tells the caches what the API server answered."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agents.job.conditions import Type, find, is_true
from agents.job.status import conditions_of
from agents.operator.actions import Create, CreateKeys, Delete, DeleteWorkers, Emit, Patch, WriteStatus
from agents.operator.caches import Caches, controller, group_of, key_of, owner
from agents.operator.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError, RefusedError
from agents.operator.kinds import BATCH_JOB, POD, SECRET
from agents.operator.trim import JOB_UID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.operator.actions import Action
    from agents.operator.api import Api
    from agents.operator.kinds import Kind
    from agents.operator.metrics import Metrics
    from agents.operator.recorder import Recorder

Body = dict[str, Any]
Wanted = tuple[str, str]  # kind and name of an object that a job wants

_LOG = logging.getLogger(__name__)
_SIDE_BY_SIDE = 8  # requests of all jobs' larger steps together
_ONE_BY_ONE_MAX = 2  # actions of a step that are not worth a thread's waking


@dataclass(slots=True)
class Memory:
    """What is known of one job beside the caches."""

    uid: str
    edition: tuple[int, Body] | None = None  # the job's generation and annotations
    taken: dict[Wanted, float] = field(default_factory=dict)  # → when it was found so, by the executor's clock
    refused: dict[Wanted, str] = field(default_factory=dict)  # → the API server's words
    rounds: int = 0  # plans in a row that had something to do


class Executor:
    """What the workers share."""

    def __init__(self, api: Api, caches: Caches, recorder: Recorder, metrics: Metrics) -> None:
        self._api, self._caches, self._recorder, self._metrics = api, caches, recorder, metrics
        self._pool = ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="request")

    def carry_out(self, resource: Body, memory: Memory, step: Sequence[Action], now: float) -> list[ApiError]:
        """Carry out one step's actions; return why some failed."""
        if len(step) <= _ONE_BY_ONE_MAX:
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
            case CreateKeys():
                self._create(resource, memory, _with_keys(action), now)
            case Create():
                self._create(resource, memory, action, now)
            case Patch(kind=kind, name=name, body=body):
                self._caches.store(kind).put(self._api.patch(kind.path(namespace, name), body))
            case Delete():
                self._delete(namespace, action)
            case DeleteWorkers():
                self._delete_workers(resource)
            case WriteStatus():
                self._write_status(resource, action)
            case Emit():
                self._recorder.emit(resource, action)

    def _create(self, resource: Body, memory: Memory, action: Create, now: float) -> None:
        namespace, kind, name = resource["metadata"]["namespace"], action.kind, action.body["metadata"]["name"]
        wanted = (kind.name, name)
        try:
            made = self._api.create(kind, namespace, action.body)
        except AlreadyExistsError:
            made = self._existing(kind, namespace, name)
            if controller(made) != memory.uid:
                if not _is_left_over(made, resource):
                    memory.taken[wanted] = now
                    raise  # what the plan has behind it, pods at worst, would go on with someone else's object
                raise ConflictError(f"{kind.name} {name} of an earlier job is still being deleted") from None
            if JOB_UID not in (made["metadata"].get("labels") or {}):  # then it is not watched
                made = self._labelled(kind, namespace, name, memory)
        except RefusedError as error:
            memory.refused[wanted] = str(error)
            raise
        self._caches.store(kind).put(made)
        memory.refused.pop(wanted, None)
        memory.taken.pop(wanted, None)

    def _labelled(self, kind: Kind, namespace: str, name: str, memory: Memory) -> Body:
        label = {"metadata": {"labels": {JOB_UID: memory.uid}}}
        try:
            return self._api.patch(kind.path(namespace, name), label)
        except RefusedError as error:  # of most kinds the chart lets us change none
            lost = f"it is there without its label {JOB_UID}={memory.uid}, by which it is found: {error}"
            memory.refused[kind.name, name] = lost
            raise

    def _existing(self, kind: Kind, namespace: str, name: str) -> Body:
        if not kind.is_secret:
            return self._api.get(kind.path(namespace, name))
        # Of a Secret no more than is watched; and who may list need not be allowed to get.
        path, selector = kind.path(namespace), f"metadata.name={name}"
        found = self._api.list(path, partial=True, fieldSelector=selector).get("items") or ()
        for body in found:
            return dict(body)
        raise ConflictError(f"{kind.name} {name} has just been deleted")

    def _delete(self, namespace: str, action: Delete) -> None:
        store = self._caches.store(action.kind)
        try:
            # A batch Job is there until its pods are gone: no other launcher is made beside the last seconds of one.
            waits = action.kind == BATCH_JOB
            answer = self._api.delete(store.kind.path(namespace, action.name), action.uid, waits=waits)
        except NotFoundError:
            store.remove(namespace, action.name, action.uid)
            return
        if answer.get("kind") == action.kind.name:
            store.put(answer)  # it is still there, until its grace period is over
        else:
            store.remove(namespace, action.name, action.uid)

    def _delete_workers(self, resource: Body) -> None:
        metadata = resource["metadata"]
        store = self._caches.store(POD)
        workers = [pod for pod in store.of_job(metadata["uid"]) if _is_worker(pod)]
        newest = max((int(pod["metadata"]["resourceVersion"]) for pod in workers), default=0)
        selector = f"{JOB_UID}={metadata['uid']},{_ROLE}=worker"
        self._api.delete_collection(POD.path(metadata["namespace"]), selector, newest)
        store.mark_deleted(workers, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))

    def _write_status(self, resource: Body, action: WriteStatus) -> None:
        """Replace the status alone: the API server takes all but the status from what it has."""
        metadata, jobs = resource["metadata"], self._caches.jobs(group_of(resource))
        kind = jobs.kind
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
                "resourceVersion": action.resource_version,
            },
            "status": action.status,
        }
        path = kind.path(metadata["namespace"], metadata["name"], "status")
        with jobs.writing(metadata["uid"], action.status):
            jobs.put(self._api.replace(path, body), is_told=False)  # the plan goes on, or is tried again when it is due
        self._count(resource, {**resource, "status": action.status})

    def _count(self, before: Body, after: Body) -> None:
        was, now = conditions_of(before), conditions_of(after)
        if find(now, Type.CREATED) and not find(was, Type.CREATED):  # T9k's begins as False
            self._metrics.jobs_created.add()
        for condition, counter in (
            (Type.SUCCEEDED, self._metrics.jobs_successful),
            (Type.FAILED, self._metrics.jobs_failed),
        ):
            if is_true(now, condition) and not is_true(was, condition):
                counter.add()


def named(action: Action) -> str:
    """Return what an action does to what."""
    match action:
        case Create(kind=kind, body=body):
            return f"create {kind.name} {body['metadata']['name']}"
        case CreateKeys(body=body):
            return f"create Secret {body['metadata']['name']}"
        case Patch(kind=kind, name=name):
            return f"patch {kind.name} {name}"
        case Delete(kind=kind, name=name):
            return f"delete {kind.name} {name}"
        case DeleteWorkers():
            return "delete all workers"
        case WriteStatus():
            return "write the status"
        case Emit(type=type_):
            return f"record a {type_} event"


def _with_keys(action: CreateKeys) -> Create:
    # 11 MiB and 30 ms, which an operator of exec jobs alone does not pay.
    from agents.operator.keys import new_pair  # noqa: PLC0415

    return Create(SECRET, {**action.body, "data": new_pair(action.key_type)}, action.reason)


_ROLE = "mpi-agents/role"  # label of pods


def _is_worker(pod: Body) -> bool:
    return (pod["metadata"].get("labels") or {}).get(_ROLE) == "worker"


def _is_left_over(body: Body, resource: Body) -> bool:
    """Whether an object is of an earlier job of this name: the garbage collector is about to take it."""
    by = owner(body)
    wanted = (group_of(resource), "MPIJob", resource["metadata"]["name"])
    return (group_of(by), by.get("kind"), by.get("name")) == wanted
