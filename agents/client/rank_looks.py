"""Looks at the ranks of a job: asks the worker agents, by exec in their own containers, and py-spy in the user's.

Exec works wherever a job by exec does, and needs no right that `kubectl exec` does not. The API server's proxy would
need a route from it to the pods, and a port that tells the whole network what the agent now tells in its pod alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from agents.client import ranks
from agents.client.each_pod import each_pod, ignore
from agents.client.errors import NotFoundError, RefusedError
from agents.client.facts import Facts, PodFacts
from agents.client.ranks import RankProcess, Sample
from agents.client.reader import Reader
from agents.common.text import one_line

_SAMPLE_S = 1.0  # between the two samples of a first look
_ANSWER_S = 60.0  # py-spy takes long, and so does the agent in a busy worker with a small CPU limit
_ANSWER_MAX = 4 << 20  # bytes
_HIDDEN = "set runAsUser and runAsGroup in the workers' template as the image has them (docs/worker.md#processes)"
# One after the other, as each takes a CPU. nonblocking: the program is not stopped meanwhile.
_PY_SPY = 'command -v py-spy >/dev/null || exit 0; for pid; do py-spy dump --nonblocking --json --pid "$pid"; done'


@dataclass(frozen=True, slots=True)
class RankReport:
    """The ranks' processes in the order of their ranks, and a line for each worker that shows none."""

    ranks: tuple[RankProcess, ...]
    notes: tuple[str, ...]


class RankLooks:
    """Looks at one job's ranks repeatedly. Methods raise ClientError if no worker can be asked.

    `progress`, if given, gets a line for each worker that was asked.
    """

    def __init__(self, client: Reader, name: str) -> None:
        self._client, self._name = client, name
        self._facts: Facts | None = None
        self._pods: list[PodFacts] = []
        self._samples: dict[str, Sample] = {}

    def look(self, progress: Callable[[str], None] = ignore) -> RankReport:
        """Return the ranks, with the CPU that they used since the look before; the first look takes a second for it."""
        self._facts = self._client.facts(self._name, self._facts)
        self._pods = [*self._facts.workers.values()]
        if self._facts.has_ended or not self._pods:
            raise NotFoundError(f"{self._name} has no ranks: {self._client.why(self._name).what}")
        if why := ranks.why_unseen(self._facts):
            raise RefusedError(why)
        if not self._samples:
            self._samples, _ = each_pod(self._pods, self._sample, progress)
            time.sleep(_SAMPLE_S)
        before, (self._samples, notes) = self._samples, each_pod(self._pods, self._sample, progress)
        for pod, now in self._samples.items():
            if not now.ranks and now.denied:
                notes.append(f"{pod}: {now.denied} processes hide which rank they are: {_HIDDEN}")
        found = [one for pod, now in self._samples.items() for one in ranks.compared(before.get(pod), now)]
        found.sort(key=lambda one: (one.rank, one.worker, one.pid))
        return RankReport(tuple(found), tuple(notes))

    def stacks(self, rank: int | None = None, progress: Callable[[str], None] = ignore) -> RankReport:
        """Return the ranks, or one of them, with the Python stacks of those whose image has py-spy."""
        seen = self.look(progress)
        found = [one for one in seen.ranks if rank in {None, one.rank}]
        if rank is not None and not found:
            raise NotFoundError(f"{self._name} has no rank {rank}: {'; '.join(seen.notes) or 'it is on no worker'}")
        pids = {pod: [one.pid for one in found if one.pod == pod] for pod in {one.pod for one in found}}
        pods = [pod for pod in self._pods if pod.name in pids]
        frames, notes = each_pod(pods, lambda pod: self._py_spy(pod, pids[pod.name]), progress)
        stacked = (replace(one, frames=frames.get(one.pod, {}).get(one.pid, ())) for one in found)
        return RankReport(tuple(stacked), (*seen.notes, *notes))

    def _sample(self, pod: PodFacts) -> Sample:
        agent = ranks.agent_of(pod)
        if not agent:
            raise ValueError("it was created without the process view: a new pod has it")
        done = self._client.execute(
            pod, ["mpi-worker", "ranks"], timeout_s=_ANSWER_S, most=_ANSWER_MAX, container=agent
        )
        if done.exit_code:
            raise ValueError(f"mpi-worker exited with {done.exit_code}: {one_line(done.stderr)}")
        return ranks.parse(done.stdout, pod)

    def _py_spy(self, pod: PodFacts, pids: Iterable[int]) -> dict[int, tuple[str, ...]]:
        words = ["sh", "-c", _PY_SPY, "py-spy", *map(str, pids)]
        try:
            done = self._client.execute(pod, words, timeout_s=_ANSWER_S, most=_ANSWER_MAX)
        except RefusedError:  # an image without a shell has no py-spy either
            return {}
        found = ranks.python_stacks(done.stdout)
        if not found and b"ermission" in done.stderr:
            raise ValueError("py-spy may not look at the ranks: give the container the capability SYS_PTRACE")
        return found
