"""Follows a job to its end: what it waits for, and what its launchers write."""

from __future__ import annotations

import time
from collections.abc import Callable

from agents.client.errors import AccessError, ForbiddenError, NotFoundError, RefusedError
from agents.client.facts import Facts, PodFacts
from agents.client.model import JobStatus, State
from agents.client.outage import Outage
from agents.client.reader import Reader
from agents.client.summaries import status_of

_LOOK_S = 1.0
_LAST_LINES_S = 120.0  # how long to try to read a terminated container's last lines
_PAUSE_MAX_S = 10.0


class Follower:
    """One job. `report` gets a line whenever it waits for something else, `output` each line of its launchers."""

    def __init__(self, client: Reader, name: str, report: Callable[[str], None], output: Callable[[str], None]) -> None:
        self._client, self._name = client, name
        self._report, self._output = report, output
        self._done: set[tuple[str, int]] = set()  # launchers whose output is here: by pod's uid, and restarts
        self._known: Facts | None = None
        self._pause_s = _LOOK_S
        self._last = ""
        self._outage = Outage(self._say)

    def follow(self) -> JobStatus:
        """Follow until the job has ended; return it. Raises ClientError: also if it is deleted meanwhile."""
        while True:
            facts = self._facts(self._known)
            if self._known is None or (facts.resource, facts.pods) != (self._known.resource, self._known.pods):
                self._pause_s = _LOOK_S
            self._known = facts
            launcher = self._next(facts)
            if launcher is not None:
                self._read(launcher)
                continue
            status = status_of(facts)
            if status.state.has_ended:
                return status
            if status.state is not State.RUNNING or status.summary.reason:
                self._say(status.explanation.what)
            self._pause(facts)

    def _pause(self, facts: Facts) -> None:
        """Wait for a change of the job, each time longer: what its status does not tell of is seen then."""
        began = time.monotonic()
        try:
            is_changed = self._client.changed(facts.resource, self._pause_s) is not None
        except AccessError as error:
            self._outage.failed(error)
            return
        except (ForbiddenError, RefusedError):  # no right to watch: looking is enough
            is_changed = False
        if not is_changed:
            time.sleep(max(0.0, began + self._pause_s - time.monotonic()))
            self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)

    def _facts(self, known: Facts | None = None) -> Facts:
        """What is known of the job, after what was `known`."""
        return self._outage.answer(lambda: self._client.facts(self._name, known))

    def _next(self, facts: Facts) -> PodFacts | None:
        """The oldest launcher that has started, and whose output was not read yet."""
        for pod in facts.launchers:
            main = pod.main
            if main is not None and main.state in {"running", "terminated"} and _key(pod) not in self._done:
                return pod
        return None

    def _read(self, pod: PodFacts) -> None:
        """Read a launcher's output to its end, over lost connections."""
        since: int | None = None
        heard = time.monotonic()
        ended: float | None = None  # when the container was first seen terminated, with lines still unread
        while True:
            is_lost = False
            try:
                for line in self._client.output(pod, follow=True, since_s=since):
                    heard = time.monotonic()
                    self._output(line)
            except AccessError as error:
                is_lost = True
                self._say(f"{error}; lines may be missing or repeated here")
            except (NotFoundError, RefusedError):  # its pod is gone, or its container is started again right now
                break
            state = _state(self._facts(), pod)
            if state == "terminated" and is_lost:
                ended = ended or time.monotonic()
                if time.monotonic() - ended > _LAST_LINES_S:
                    self._say(f"{pod.name} has ended, and its last lines can't be read")
                    break
            elif state != "running":
                break
            time.sleep(_LOOK_S)
            since = int(time.monotonic() - heard) + 1
        self._done.add(_key(pod))

    def _say(self, line: str) -> None:
        if line != self._last:
            self._last = line
            self._report(line)


def _key(pod: PodFacts) -> tuple[str, int]:
    return pod.uid, 0 if pod.main is None else pod.main.restarts


def _state(facts: Facts, pod: PodFacts) -> str:
    """Return the state of this very container of a launcher; "" if it was replaced or is gone."""
    now = next((one for one in facts.launchers if one.uid == pod.uid), None)
    return now.main.state if now is not None and now.main is not None and _key(now) == _key(pod) else ""
