"""`MpiClient`: MPI jobs from Python, as `kubectl mpi` shows them."""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from agents.client import manifests, modes, pod_command, pod_logs, sync
from agents.client.bundle import Bundle
from agents.client.clusters import Clusters
from agents.client.connection import Connection
from agents.client.diagnosis import diagnose
from agents.client.doctor import Check, Examination, Group, Subject, ordered, skip
from agents.client.errors import AccessError, ClientError, ForbiddenError, NotFoundError, WaitTimeoutError
from agents.client.facts import Facts, PodFacts
from agents.client.follow import Follower
from agents.client.model import Explanation, JobEvent, JobStatus, JobSummary
from agents.client.objects import Objects, kind_of, path_of
from agents.client.outage import Outage
from agents.client.pod_command import Done
from agents.client.queue import Queues
from agents.client.rank_looks import RankLooks
from agents.client.summaries import events_of, status_of, summary_of
from agents.client.tags import RankOutput
from agents.job.json_object import Body, Object, part
from agents.operator.kube import POD

_WATCH_S = 240  # a watch is begun anew after so long: proxies cut silent ones


class MpiClient:
    """A user's view of the MPI jobs of one cluster. Methods take a job's name, and raise ClientError.

    Reading works for every MPIJob of kubeflow's and T9k's API, whichever operator runs it.

        with MpiClient(namespace="hpc") as client:
            client.submit(manifest)
            status = client.wait("pi", timeout_s=3600)
            print(client.why("pi"))
            for line in client.logs("pi"):
                print(line)
    """

    def __init__(
        self, *, context: str | None = None, namespace: str | None = None, kubeconfig: str | None = None
    ) -> None:
        """Connect as kubectl does by default. Raises AccessError if no cluster is configured."""
        self._connection = Connection.load(kubeconfig, context)
        self.namespace = namespace or self._connection.namespace
        """Where jobs are looked for."""
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

    def within(self, namespace: str) -> MpiClient:
        """Return a client for another namespace. It shares our connections, and is not to be closed."""
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
        """Say what a job waits for or what it died of, and what to do."""
        return diagnose(self._evidence(name))

    def _evidence(self, name: str) -> Facts:
        """Return a job with its pods, events, and the end of the log that explains it."""
        resource = self.resource(name)
        pods = self._objects.pods(resource)
        facts = Facts(resource, pods, time.time())
        facts = replace(facts, events=self._objects.events(facts), pending=self._queues.pending(facts))
        return pod_logs.with_output(self._connection, facts)

    def events(self, name: str) -> tuple[JobEvent, ...]:
        """Return the events of a job, its launchers, and some workers that are not ready or were replaced.

        Oldest first. Kubernetes keeps them for an hour by default.
        """
        return tuple(events_of(self._objects.events(self.facts(name))))

    def logs(
        self,
        name: str,
        *,
        worker: int | None = None,
        rank: int | None = None,
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
    ) -> Iterator[str]:
        """Return the lines of the launcher's output, or of a worker's, or of a rank's: those with its tag.

        `follow`: until the container ends. `previous`: of the container before its last restart. `tail`: only so many
        last lines, of a rank when the container has ended. Raises NotFoundError: also if no line has a rank's tag.
        """
        pod = self.pod(name, worker)
        if rank is None:
            return self.output(pod, follow=follow, previous=previous, tail=tail)
        lines = self.rank_output(name, rank).lines(self.output(pod, follow=follow, previous=previous))
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
        """Check the cluster and the own rights, and with them a job that is there, or one that is to be submitted.

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

    def submit(self, manifest: Object, *, folder: str | None = None) -> JobSummary:
        """Create a job of a manifest. `folder`: its files are at the working directory of all its pods (`sync`).

        Raises ManifestError if it is of another namespace, or invalid, or the folder too large.
        """
        packed = None if folder is None else sync.packed(folder)
        body = self.checked(manifest)
        body = body if packed is None else sync.mounted(body)
        path = kind_of(body).path(str(part(body, "metadata")["namespace"]))
        made = sync.create(self._connection, body, path, packed)
        return summary_of(Facts({**made, "apiVersion": body["apiVersion"], "kind": body["kind"]}, (), time.time()))

    def checked(self, manifest: Object) -> Body:
        """Return a manifest with our namespace. Raises ManifestError if it has another, or is no valid MPIJob."""
        return manifests.checked(manifest, self.namespace)

    def delete(self, name: str) -> JobSummary:
        """Delete a job with all that belongs to it; return it as it was. Does not wait for its pods' end."""
        resource = self.resource(name)
        facts = self._facts(resource)
        self._connection.delete(path_of(resource), str(part(resource, "metadata").get("uid")))
        return summary_of(facts)

    def pause(self, name: str, *, is_on: bool = True) -> JobSummary:
        """Have a job's pods deleted, the launcher first, until it is resumed; not `is_on`: resume it."""
        return self._patch(name, lambda facts: modes.paused(facts, is_on=is_on))

    def debug(self, name: str, *, is_on: bool = True) -> JobSummary:
        """Have a job's next launcher wait for its user instead of running its program; not `is_on`: run it again."""
        return self._patch(name, lambda facts: modes.debugged(facts, is_on=is_on))

    def wait(
        self,
        name: str,
        *,
        timeout_s: float | None = None,
        until: Callable[[JobStatus], bool] = lambda status: status.state.has_ended,
    ) -> JobStatus:
        """Wait until a job has ended, or `until` holds, and return it. Raises WaitTimeoutError, NotFoundError."""
        for status in self.changes(name, timeout_s=timeout_s):
            if until(status):
                return status
        raise WaitTimeoutError(f"not within {timeout_s:g} s: {self.why(name).what}")

    def changes(self, name: str, *, timeout_s: float | None = None) -> Iterator[JobStatus]:
        """Return a job now, and at each change of it, until `timeout_s` is over; NotFoundError if it is deleted."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        resource: Body | None = self.resource(name)
        uid = part(resource, "metadata").get("uid")
        outage = Outage()
        while True:
            left_s = _WATCH_S if deadline is None else deadline - time.monotonic()
            try:
                resource = self.resource(name) if resource is None else resource
                status = self._status(resource, uid)
                outage.ended()
                yield status
                if left_s <= 0:
                    return
                resource = self.changed(resource, min(left_s, _WATCH_S))
            except AccessError as error:
                outage.failed(error, most_s=left_s)
                resource = None

    def changed(self, resource: Object, timeout_s: float) -> Body | None:
        """Wait for a change of a job, and return it; None: there was none in so many seconds, or look again."""
        metadata = part(resource, "metadata")
        path = kind_of(resource).path(str(metadata.get("namespace")))
        query = {"fieldSelector": f"metadata.name={metadata.get('name')}"}
        try:
            for event in self._connection.events(
                path, version=str(metadata.get("resourceVersion")), timeout_s=int(timeout_s) or 1, **query
            ):
                if event.get("type") == "DELETED":
                    raise NotFoundError(f"{metadata.get('name')} was deleted")
                return {"apiVersion": resource.get("apiVersion"), "kind": resource.get("kind"), **part(event, "object")}
        except ClientError as error:
            if error.code != 410:  # the version is too old
                raise
        return None

    def follow(self, name: str, *, report: Callable[[str], None], output: Callable[[str], None]) -> JobStatus:
        """Follow a job to its end and return it: `report` gets what it waits for, `output` its launchers' lines."""
        return Follower(self, name, report, output).follow()

    @property
    def clusters(self) -> Clusters:
        """The virtual clusters of this namespace."""
        return Clusters(self, self._connection, self._objects)

    def ranks(self, name: str) -> RankLooks:
        """Return what looks at the processes of a job's ranks: CPU, memory, state, and where they hang."""
        return RankLooks(self, name)

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

    def output(
        self,
        pod: PodFacts,
        *,
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
        since_s: int | None = None,
    ) -> Iterator[str]:
        """Return the lines of a pod's main container; `since_s`: of so many last seconds. Raises NotFoundError."""
        if pod.main is None or (pod.main.state == "waiting" and not pod.main.restarts):
            why = pod.why.message if pod.why is not None else "it has not started"
            raise NotFoundError(f"{pod.name} has no output yet: {why}. `kubectl mpi why` says more.")
        path = POD.path(self.namespace, pod.name, "log")
        main = pod.state.main_container
        return pod_logs.lines(
            self._connection, path, main, follow=follow, previous=previous, tail=tail, since_s=since_s
        )

    def bundle(self, name: str, report: Callable[[str], None] = lambda _line: None) -> Iterator[tuple[str, str]]:
        """Return the files of a bug report on a job, without secrets: names and texts. `report` gets the progress."""
        return Bundle(self, self._connection, name, report).files()

    def execute(
        self, pod: PodFacts, argv: Sequence[str], *, timeout_s: float, most: int = 65536, container: str = ""
    ) -> Done:
        """Run a command in a pod's main container, or another; return its end and `most` bytes. Raises as `run`."""
        where = (self.namespace, pod.name, container or pod.state.main_container)
        return pod_command.run(self._connection, *where, argv, timeout_s=timeout_s, most=most)

    def versions(self) -> tuple[str, ...]:
        """Return which of kubeflow's versions the cluster serves: of v1 and v2beta1. Raises NotFoundError if none."""
        return self._objects.versions()

    def _patch(self, name: str, change: Callable[[Facts], Body]) -> JobSummary:
        facts = self.facts(name)
        changed = self._connection.patch(path_of(facts.resource), change(facts))
        return summary_of(Facts({**facts.resource, **changed}, facts.pods, facts.now))

    def _status(self, resource: Object, uid: object) -> JobStatus:
        if part(resource, "metadata").get("uid") != uid:
            raise NotFoundError(f"{part(resource, 'metadata').get('name')} was deleted, and another one created")
        return status_of(self._facts(resource))

    def _facts(self, resource: Object) -> Facts:
        return Facts(resource, self._objects.pods(resource), time.time())
