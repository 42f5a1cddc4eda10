"""Executes the script in a job's running pods, some at a time, and makes checks of what it finds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from agents.client import pod_command
from agents.client.connection import Connection
from agents.client.doctor import probe, script
from agents.client.doctor.check import Check, Group, skip
from agents.client.doctor.probe import Probe
from agents.client.doctor.ssh import ssh_checks
from agents.client.each_pod import each_pod
from agents.client.errors import ClientError, RefusedError
from agents.client.facts import Facts, PodFacts
from agents.job.json_object import part
from agents.job.model import Job, Transport

_TIME_S = 20.0  # for each of the two commands in a pod
_PODS_MAX = 128


class Probing:
    """Looks into the pods of one job."""

    def __init__(self, connection: Connection, facts: Facts, job: Job, report: Callable[[str], None]) -> None:
        self._connection, self._facts, self._job, self._report = connection, facts, job, report
        launcher = facts.launcher
        spec = {} if launcher is None else part(launcher.raw, "spec")
        self._launcher = str(spec.get("hostname") or (launcher.name if launcher is not None else job.launcher_name))

    def checks(self) -> Iterator[Check]:
        """Look into all running pods, and check what is found."""
        pods = [pod for pod in (self._facts.launcher, *self._facts.workers.values()) if pod is not None]
        running = [pod for pod in pods if pod.main is not None and pod.main.state == "running"]
        if len(running) < len(pods) or not pods:
            yield skip(Group.PODS, "probes", f"{len(running)} of {len(pods)} pods run")
        if more := len(running[_PODS_MAX:]):
            yield skip(Group.PODS, "probes", f"{more} more pods than the first {_PODS_MAX}")
        if not running:
            return
        answers, _ = each_pod(running[:_PODS_MAX], self._probe, self._report)  # a pod's error is in its answer
        found = [*answers.values()]
        yield from probe.exec_checks(found)
        if reached := [one for one in found if one.error is None]:
            yield from probe.mpi_checks(self._job, reached)
            yield from probe.limit_checks(self._job, reached)
            yield from probe.dns_checks(self._job, reached, self._launcher)
            if self._job.transport is Transport.SSH:
                yield from ssh_checks(self._job, reached)

    def _probe(self, pod: PodFacts) -> Probe:
        try:
            started = time.monotonic()
            shell = self._run(pod, [*script.SHELL, ":"])
            latency_s = time.monotonic() - started
            if shell.exit_code:  # so Docker and CRI-O end what can't be started, and containerd by an error
                raise RefusedError(f"{pod.name}: {(shell.stdout + shell.stderr).decode('utf-8', 'replace')}")
            done = self._run(pod, script.argv(self._job, pod.role, self._launcher))
            values = script.parse(done.stdout)
            if script.END not in values:
                said = done.stderr.decode("utf-8", "replace")
                raise RefusedError(f"{pod.name}: the script ended early, with exit code {done.exit_code}: {said}")
        except ClientError as error:
            return Probe(pod.name, pod.role, error=error)
        return Probe(pod.name, pod.role, values, latency_s)

    def _run(self, pod: PodFacts, argv: Sequence[str]) -> pod_command.Done:
        container = pod.state.main_container
        return pod_command.run(
            self._connection, self._facts.namespace, pod.name, container, argv, timeout_s=_TIME_S, most=script.MOST
        )
