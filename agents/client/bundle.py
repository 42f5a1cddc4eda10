"""What a bug report needs of a job, as files: objects, events, logs, what we say of it. Without secrets (`redact`).

Secrets are never asked for, of config maps only the names are kept, of nodes a few facts. What can't be read, for want
of a right or because it is too large, is named in LEFT-OUT.txt.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from agents.client import pod_logs, redact
from agents.client.connection import Connection
from agents.client.errors import AccessError, ClientError, NotFoundError
from agents.client.facts import Facts, PodFacts
from agents.client.model import as_json
from agents.client.reader import Reader
from agents.job.json_object import Body, mappings, part
from agents.job.model import LAUNCHER
from agents.kube.detection import DEPLOYMENTS
from agents.kube.kinds import BATCH_JOB, CONFIG_MAP, DEPLOYMENT, SERVICE, Kind
from rshagent import __version__

LOG_MAX = 256 << 10  # bytes of a container's log: of its end
SUM_MAX = 64 << 20  # of all files
_READ_MAX, _LINES = 16 << 20, 5000  # of a log are read
_NODES_MAX = 50
_NODE_FACTS = ("nodeInfo", "conditions", "capacity", "allocatable")
_OPERATORS = (*DEPLOYMENTS, "mpi-agents")  # parts of the names of their Deployments


class Bundle:
    """Reads all of a job. `report` gets a line for each part that may take long."""

    def __init__(self, client: Reader, connection: Connection, name: str, report: Callable[[str], None]) -> None:
        self._client, self._connection, self._name, self._report = client, connection, name, report
        self._left_out: list[str] = []
        self._size = 0

    def files(self) -> Iterator[tuple[str, str]]:
        """Return names and texts. Raises NotFoundError if there is no such job."""
        facts = self._client.facts(self._name)
        for name, text in self._all(facts):
            size = len(text.encode(errors="replace"))
            if self._size + size > SUM_MAX:
                self._left_out.append(f"{name} and all later files: together they would exceed {SUM_MAX >> 20} MiB")
                break
            self._size += size
            yield name, text
        yield "LEFT-OUT.txt", redact.text("".join(f"{line}\n" for line in self._left_out or ["nothing"]))

    def _all(self, facts: Facts) -> Iterator[tuple[str, str]]:
        yield "job.json", _text(facts.resource)
        texts: dict[str, Callable[[], object]] = {
            "versions.json": self._versions,
            "status.json": lambda: as_json(self._client.get(self._name)),
            "why.json": lambda: as_json(self._client.why(self._name)),
            "events.json": lambda: as_json(self._client.events(self._name)),
            "doctor.json": lambda: as_json(self._client.doctor(self._name)),
            "launcher-job.json": lambda: self._launcher_job(facts),
            "services.json": lambda: self._owned(SERVICE, facts),
            "config-maps.json": lambda: [part(one, "metadata").get("name") for one in self._owned(CONFIG_MAP, facts)],
            "nodes.json": lambda: self._nodes(facts),
        }
        for name, read in texts.items():
            self._report(f"reading {name.partition('.')[0]}")
            if (found := self._read(name, read)) is not None:
                yield name, _text(found)
        pods = sorted(facts.by_name.values(), key=lambda pod: (pod.role, pod.why is None))
        for number, pod in enumerate(pods, 1):
            self._report(f"reading logs of {pod.name} ({number} of {len(pods)} pods)")
            yield f"pods/{pod.name}.json", _text(pod.raw)
            yield from self._logs(pod)

    def _read(self, name: str, read: Callable[[], object]) -> object:
        """Return what is read, None if it can't be. Raises AccessError if the API server does not answer at all."""
        try:
            return read()
        except ClientError as error:
            if isinstance(error, AccessError) and not error.code:
                raise
            self._left_out.append(f"{name}: {error}")
            return None

    def _versions(self) -> Body:
        found: Body = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "kubectl-mpi": __version__}
        found["kubernetes"] = self._read("versions.json: Kubernetes", lambda: self._connection.get("/version"))
        found["operators"] = self._read("versions.json: operators", self._operators)
        return found

    def _operators(self) -> dict[str, list[str]]:
        """The images of all Deployments that may be an operator for MPIJobs, by namespace and name."""
        found = {}
        for one in self._connection.items(DEPLOYMENT.path()):
            metadata = part(one, "metadata")
            if any(name in str(metadata.get("name")) for name in _OPERATORS):
                containers = mappings(part(one, "spec", "template", "spec").get("containers"))
                found[f"{metadata.get('namespace')}/{metadata.get('name')}"] = [str(c.get("image")) for c in containers]
        return found

    def _launcher_job(self, facts: Facts) -> object:
        """The batch Job of a v2beta1 launcher, None if there is none."""
        try:
            return self._connection.get(BATCH_JOB.path(facts.namespace, f"{facts.name}-{LAUNCHER}"))
        except NotFoundError:
            return None

    def _owned(self, kind: Kind, facts: Facts) -> list[Body]:
        """The objects of a kind that belong to the job."""
        uid = part(facts.resource, "metadata").get("uid")
        return [
            one
            for one in self._connection.items(kind.path(facts.namespace))
            if any(owner.get("uid") == uid for owner in mappings(part(one, "metadata").get("ownerReferences")))
        ]

    def _nodes(self, facts: Facts) -> dict[str, Body]:
        names = {pod.state.node for pod in facts.by_name.values() if pod.state.node}
        found = {}
        for name in sorted(names)[:_NODES_MAX]:
            try:
                node = self._connection.get(f"/api/v1/nodes/{name}")
            except NotFoundError as error:  # an autoscaler has removed it
                self._left_out.append(f"nodes.json: {error}")
                continue
            known = part(node, "status")
            found[name] = {key: known.get(key) for key in _NODE_FACTS} | {"taints": part(node, "spec").get("taints")}
        return found

    def _logs(self, pod: PodFacts) -> Iterator[tuple[str, str]]:
        """The ends of the logs of all containers, also of those before a restart."""
        for container in pod.state.containers:
            for previous in (False, True):
                if container.restarts if previous else container.state in {"running", "terminated"}:
                    name = f"logs/{pod.name}.{container.name}{'.previous' if previous else ''}.log"
                    read = partial(self._log, pod.name, container.name, previous=previous)
                    if (found := self._read(name, read)) is not None:
                        yield name, str(found)

    def _log(self, pod: str, container: str, *, previous: bool) -> str:
        """Return the end of a log. It starts and ends with a whole line: a part of a secret would not be recognized."""
        where = (self._connection, self._client.namespace, pod, container)
        lines = [*pod_logs.lines(*where, previous=previous, tail=_LINES, most=_READ_MAX)]
        text = "".join(f"{line}\n" for line in lines)
        if len(text.encode()) >= _READ_MAX:
            text = text[: text.rstrip("\n").rfind("\n") + 1]
        for most in (4 * LOG_MAX, LOG_MAX):
            if len(text) > most:
                text = text[text.find("\n", -most) + 1 :]
            text = redact.text(text)
        return text


def _text(found: Any) -> str:
    return json.dumps(redact.value(found), indent=1, ensure_ascii=False) + "\n"
