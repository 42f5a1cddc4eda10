"""Makes the checks: asks the API server, in the order in which they are shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from agents.client import manifests
from agents.client.connection import Connection
from agents.client.diagnosis import diagnose
from agents.client.doctor import admission, capacity, cluster, job, rights
from agents.client.doctor.check import Check, Group, ordered, skip
from agents.client.doctor.probing import Probing
from agents.client.errors import AccessError, ClientError, ForbiddenError
from agents.client.facts import Facts
from agents.client.objects import Objects, kind_of
from agents.job.json_object import Body, Object, part
from agents.job.model import LAUNCHER, WORKER, Job, Problem
from agents.kube.detection import DEPLOYMENTS, LEASES, OWN_LEASE, find_operators
from agents.kube.kinds import DEPLOYMENT, LEASE, MPI_JOB_V2BETA1, POD, Kind

_AT_ONCE = 4  # requests; as many connections are kept
_NODE, _QUOTA = Kind("Node", "v1", "nodes"), Kind("ResourceQuota", "v1", "resourcequotas")


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined: a manifest, or a job that is there with what is known of it."""

    resource: Object
    facts: Facts | None = None

    @property
    def read(self) -> Job | tuple[Problem, ...]:
        """The job, or its problems."""
        if self.facts is not None:
            return self.facts.job or self.facts.problems
        return manifests.parsed(self.resource)

    @property
    def missing(self) -> dict[str, int]:
        """How many pods of each role must still be created."""
        found = self.read
        workers = found.worker.replicas if isinstance(found, Job) else 0
        if self.facts is None:
            return {LAUNCHER: 1, WORKER: workers}
        if self.facts.has_ended:
            return {LAUNCHER: 0, WORKER: 0}
        return {LAUNCHER: int(self.facts.launcher is None), WORKER: max(0, workers - len(self.facts.workers))}


def without_cluster(subject: Subject) -> list[Check]:
    """Return the checks of a job that need no cluster."""
    found = job.validity(subject.read)
    if isinstance(subject.read, Job):
        found.append(job.images(subject.read))
    return found


class Examination:
    """The checks that are made with a cluster, of a subject in a namespace or of the cluster alone."""

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        subject: Subject | None,
        report: Callable[[str], None],
        *,
        probes: bool = False,
    ) -> None:
        """`probes`: execute a script in the job's pods, too."""
        self._connection, self._objects = connection, Objects(connection)
        self._namespace, self._subject, self._report = namespace, subject, report
        self._probes = probes

    def checks(self) -> tuple[Check, ...]:
        """Make all checks. Raises AccessError if the API server does not answer."""
        subject = self._subject
        kind, facts = (None, None) if subject is None else (self._kind(), subject.facts)
        has_begun = facts is not None and bool(facts.conditions)
        steps: list[tuple[Group, str, Callable[[], Iterable[Check]]]] = [
            (Group.CLUSTER, "definition", lambda: [cluster.definition(self._objects.served(), kind)]),
            (Group.CLUSTER, "operator", lambda: [cluster.operator(self._operators(), has_begun=has_begun)]),
            (Group.RIGHTS, "rights", self._rights),
        ]
        found: list[Check] = []
        if subject is not None:
            found += without_cluster(subject)
            steps.append((Group.ADMISSION, "dry run", lambda: self._admission(subject)))
            items = self._connection.items
            if isinstance(read := subject.read, Job):
                steps.append((Group.CAPACITY, "nodes", lambda: capacity.nodes(read, [*items(_NODE.path())])))
                quotas = items(_QUOTA.path(self._namespace))
                steps.append((Group.CAPACITY, "quotas", lambda: capacity.quotas(read, [*quotas], subject.missing)))
            if facts is not None:
                found += [job.state(diagnose(facts)), *job.pods(facts)]
            if self._probes and facts is not None and facts.job is not None:
                probing = Probing(self._connection, facts, facts.job, self._report)
                steps.append((Group.PODS, "probes", probing.checks))
        for group, name, step in steps:
            self._report(f"checking {group}: {name}")
            found += _made(group, name, step)
        return ordered(found)

    def _kind(self) -> Kind:
        return MPI_JOB_V2BETA1 if self._subject is None else kind_of(self._subject.resource)

    def _operators(self) -> frozenset[str] | None:
        try:
            leases = [one for name in (*LEASES, OWN_LEASE) for one in self._named(LEASE, name)]
            deployments = [one for name in DEPLOYMENTS for one in self._named(DEPLOYMENT, name)]
        except ForbiddenError:
            return None
        return find_operators(leases, deployments, ("", ""), time.time())

    def _named(self, kind: Kind, name: str) -> Iterator[Body]:
        return self._connection.items(kind.path(), fieldSelector=f"metadata.name={name}")

    def _rights(self) -> list[Check]:
        asked = [one for group in rights.needed(self._kind()).values() for one in group]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = pool.map(self._may, asked)
            allowed = {one for one, may in zip(asked, answers, strict=True) if may}
        return rights.checks(self._kind(), allowed, self._namespace)

    def _may(self, right: rights.Right) -> bool:
        answer = self._connection.create(rights.REVIEW, None, right.review(self._namespace))
        return part(answer, "status").get("allowed") is True

    def _admission(self, subject: Subject) -> Iterator[Check]:
        body = dict(subject.resource) if subject.facts is None else admission.job_copy(subject.resource)
        yield from self._tried("job", self._kind(), body)
        if isinstance(subject.read, Job):
            for name, pod in admission.pods(subject.read):
                yield from self._tried(name, POD, pod)

    def _tried(self, name: str, kind: Kind, body: Body) -> list[Check]:
        strict = lenient = self._refusal(kind, body, admission.STRICT)
        if admission.is_strict(strict):
            lenient = self._refusal(kind, body, admission.LENIENT)
        return admission.result(name, strict, lenient)

    def _refusal(self, kind: Kind, body: Body, query: dict[str, str]) -> ClientError | None:
        try:
            self._connection.create(kind, self._namespace, body, **query)
        except ClientError as error:
            return error
        return None


def _made(group: Group, name: str, step: Callable[[], Iterable[Check]]) -> list[Check]:
    """Make some checks; if a request for them fails, say so instead. Raises AccessError without any API server."""
    try:
        return list(step())
    except ClientError as error:
        if isinstance(error, AccessError) and error.code in {0, 401}:
            raise
        return [skip(group, name, str(error))]
