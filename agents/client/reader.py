"""`Reader`: reads the MPI jobs of a namespace and what belongs to them. It changes nothing."""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self, Unpack

from agents.client import manifests, pod_command, pod_logs
from agents.client.connection import Connection
from agents.client.diagnosis import diagnose
from agents.client.doctor import Check, Examination, Group, Subject, ordered, skip
from agents.client.errors import ClientError, ForbiddenError, NotFoundError
from agents.client.facts import Facts, PodFacts
from agents.client.model import Explanation, JobEvent, JobStatus, JobSummary
from agents.client.objects import Objects, kind_of
from agents.client.pod_command import Done
from agents.client.pod_logs import Lines
from agents.client.queue import Queues
from agents.client.summaries import events_of, status_of, summary_of
from agents.client.tags import RankOutput
from agents.job.json_object import Body, Object, part


class Reader:
    """Reads the MPI jobs of one namespace. Methods take a job's name, and raise ClientError."""

    def __init__(
        self, *, context: str | None = None, namespace: str | None = None, kubeconfig: str | None = None
    ) -> None:
        """Connect as kubectl does by default. Raises AccessError if no cluster is configured."""
        self._connection = Connection.load(kubeconfig, context)
        self.namespace = namespace or self._connection.access.namespace
        """The namespace of the jobs."""
        self._objects = Objects(self._connection)
        self._queues = Queues(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()

    def within(self, namespace: str) -> Self:
        """Return a client for another namespace. It shares our connections: do not close it."""
        client = copy.copy(self)
        client.namespace = namespace
        return client

    def list(self, *, all_namespaces: bool = False) -> tuple[JobSummary, ...]:
        """Return all jobs, by namespace and age."""
        namespace = None if all_namespaces else self.namespace
        resources = self._objects.jobs(namespace)
        pods, now = self._objects.pods_by_job(resources, namespace), time.time()
        facts = [Facts(one, pods[str(part(one, "metadata").get("uid"))], now) for one in resources]
        found = [summary_of(one) for one in self._queues.placed(facts)]
        return tuple(sorted(found, key=lambda job: (job.namespace, job.created or 0.0, job.name)))

    def names(self) -> tuple[str, ...]:
        """Return the names of all jobs of the namespace."""
        return tuple(str(part(one, "metadata").get("name")) for one in self._objects.jobs(self.namespace))

    def get(self, name: str) -> JobStatus:
        """Return a job with its pods and what has happened so far."""
        facts = self.facts(name)
        return status_of(replace(facts, pending=self._queues.pending(facts)))

    def resource(self, name: str) -> Body:
        """Return a job as the API server has it."""
        return self._objects.job(self.namespace, name)

    def why(self, name: str) -> Explanation:
        """Explain what a job waits for or why it failed, and what to do."""
        return diagnose(self._evidence(name))

    def _evidence(self, name: str) -> Facts:
        """Return a job with its pods, events, and the end of the log that explains it."""
        facts = self._facts(self.resource(name))
        facts = replace(facts, events=self._objects.events(facts), pending=self._queues.pending(facts))
        return pod_logs.with_output(self._connection, facts)

    def events(self, name: str) -> tuple[JobEvent, ...]:
        """Return the events of a job, its launchers, and some workers that are not ready or were replaced.

        Oldest first. Kubernetes keeps them for an hour by default.
        """
        return tuple(events_of(self._objects.events(self.facts(name))))

    def logs(
        self, name: str, *, worker: int | None = None, rank: int | None = None, **which: Unpack[Lines]
    ) -> Iterator[str]:
        """Return the lines of the launcher's output, or of a worker's, or of a rank's: those with its tag.

        `which` lines: as `output`; a rank's `tail` is known when the container has ended. Raises NotFoundError: also if
        no line has a rank's tag.
        """
        pod = self.pod(name, worker)
        if rank is None:
            return self.output(pod, **which)
        tail = which.pop("tail", None)
        lines = self.rank_output(name, rank).lines(self.output(pod, **which))
        return lines if tail is None else iter(deque(lines, tail))

    def rank_output(self, name: str, rank: int) -> RankOutput:
        """Return what finds the lines of a rank in the output of a job's launcher."""
        return RankOutput(rank, self.facts(name).implementation)

    def doctor(
        self,
        name: str | None = None,
        *,
        manifest: Object | None = None,
        probes: bool = False,
        report: Callable[[str], None] = lambda _: None,
    ) -> tuple[Check, ...]:
        """Check the cluster and the user's rights, and an existing job or a manifest if one is given.

        Nothing is changed. `probes`: execute a script in the job's running pods, too. `report` gets what is checked.
        """
        subject = None if manifest is None else Subject(manifests.placed(manifest, self.namespace))
        unread = []
        if name is not None:
            try:
                facts = self._evidence(name)
                subject = Subject(facts.resource, facts)
            except ForbiddenError as error:
                unread = [skip(Group.JOB, "state", str(error))]
        found = Examination(self._connection, self.namespace, subject, report, probes=probes).checks()
        return ordered([*found, *unread])

    def facts(self, name: str, known: Facts | None = None) -> Facts:
        """Return a job and its pods as they are read: for what this class has no method for.

        `known`: what this returned before, for whoever looks again and again. Pods may then be some seconds old unless
        the job has ended, and once a suspended job has none they are not asked for.
        """
        resource = self.resource(name)
        if known is None:
            return self._facts(resource)
        facts = Facts(resource, (), time.time())
        if facts.is_suspended and not facts.has_ended and not known.pods:
            return facts
        return Facts(resource, self._objects.pods(resource, may_be_old=not facts.has_ended), facts.now)

    def pod(self, name: str, worker: int | None = None) -> PodFacts:
        """Return a job's newest launcher pod, or a worker's. Raises NotFoundError."""
        facts = self.facts(name)
        pod = facts.launcher if worker is None else facts.workers.get(worker)
        if pod is None:
            what = "launcher pod" if worker is None else f"worker {worker}"
            raise NotFoundError(f"{name} has no {what}: {diagnose(facts)} `kubectl mpi why {name}` may say more.")
        return pod

    def output(self, pod: PodFacts, **which: Unpack[Lines]) -> Iterator[str]:
        """Return lines of a pod's main container: all, or as `which` says. Raises NotFoundError."""
        if pod.main is None or (pod.main.state == "waiting" and not pod.main.restarts):
            why = pod.why.message if pod.why is not None else "it has not started"
            raise NotFoundError(f"{pod.name} has no output yet: {why}. `kubectl mpi why` says more.")
        return pod_logs.lines(self._connection, self.namespace, pod.name, pod.state.main_container, **which)

    def execute(
        self, pod: PodFacts, argv: Sequence[str], *, timeout_s: float, most: int = 65536, container: str = ""
    ) -> Done:
        """Run a command in a pod's main container, or another; return its end and `most` bytes. Raises as `run`."""
        where = (self.namespace, pod.name, container or pod.state.main_container)
        return pod_command.run(self._connection, *where, argv, timeout_s=timeout_s, most=most)

    def changed(self, resource: Object, timeout_s: float) -> Body | None:
        """Wait for a change of a job, and return it; None: no change within `timeout_s`, or read it again."""
        metadata = part(resource, "metadata")
        path = kind_of(resource).path(str(metadata.get("namespace")))
        field = f"metadata.name={metadata.get('name')}"
        try:
            version, timeout = str(metadata.get("resourceVersion")), max(1, int(timeout_s))
            for event in self._connection.watch(path, version=version, timeout_s=timeout, fieldSelector=field):
                if event.get("type") == "DELETED":
                    raise NotFoundError(f"{metadata.get('name')} was deleted")
                return {"apiVersion": resource.get("apiVersion"), "kind": resource.get("kind"), **part(event, "object")}
        except ClientError as error:
            if error.code != 410:  # the version is too old
                raise
        return None

    def versions(self) -> tuple[str, ...]:
        """Return which of kubeflow's versions the cluster serves: of v1 and v2beta1. Raises NotFoundError if none."""
        return self._objects.versions()

    def _facts(self, resource: Object) -> Facts:
        return Facts(resource, self._objects.pods(resource), time.time())
