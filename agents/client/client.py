"""`MpiClient`: MPI jobs from Python, as `kubectl mpi` shows them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from agents.client import manifests, modes, sync
from agents.client.bundle import Bundle
from agents.client.clusters import Clusters
from agents.client.errors import AccessError, NotFoundError, WaitTimeoutError
from agents.client.facts import Facts
from agents.client.follow import Follower
from agents.client.model import JobStatus, JobSummary
from agents.client.objects import kind_of, path_of
from agents.client.outage import Outage
from agents.client.rank_looks import RankLooks
from agents.client.reader import Reader
from agents.client.summaries import status_of, summary_of
from agents.job.json_object import Body, Object, part

_WATCH_S = 240  # restart a watch after this time: proxies close silent connections


class MpiClient(Reader):
    """A user's view of the MPI jobs of one cluster. Methods take a job's name, and raise ClientError.

    Reading works for every MPIJob of kubeflow's and T9k's API, whichever operator runs it.

        with MpiClient(namespace="hpc") as client:
            client.submit(manifest)
            status = client.wait("pi", timeout_s=3600)
            print(client.why("pi"))
            for line in client.logs("pi"):
                print(line)
    """

    def submit(self, manifest: Object, *, folder: str | None = None) -> JobSummary:
        """Create a job of a manifest. `folder`: its files are at the working directory of all its pods (`sync`).

        Raises ManifestError if it is of another namespace, or invalid, or the folder too large.
        """
        packed = None if folder is None else sync.packed(folder)
        body = self.checked(manifest)
        body = body if packed is None else sync.mounted(body)
        made = sync.create(self._connection, kind_of(body), body, packed)
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
            found, status = outage.answer(partial(self._current, name, uid, resource))
            yield status
            left_s = _WATCH_S if deadline is None else deadline - time.monotonic()
            if left_s <= 0:
                return
            try:
                resource = self.changed(found, min(left_s, _WATCH_S))
            except AccessError as error:
                outage.failed(error)
                resource = None

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

    def bundle(self, name: str, report: Callable[[str], None] = lambda _line: None) -> Iterator[tuple[str, str]]:
        """Return the files of a bug report on a job, without secrets: names and texts. `report` gets the progress."""
        return Bundle(self, self._connection, name, report).files()

    def _patch(self, name: str, change: Callable[[Facts], Body]) -> JobSummary:
        facts = self.facts(name)
        changed = self._connection.patch(path_of(facts.resource), change(facts))
        return summary_of(Facts({**facts.resource, **changed}, facts.pods, facts.now))

    def _current(self, name: str, uid: object, resource: Body | None) -> tuple[Body, JobStatus]:
        """Return a job, which is read if it is not known, and what is said of it. Raises NotFoundError if deleted."""
        found = self.resource(name) if resource is None else resource
        if part(found, "metadata").get("uid") != uid:
            raise NotFoundError(f"{name} was deleted and created again")
        return found, status_of(self._facts(found))
