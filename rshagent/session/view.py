"""What a session sees: its worker's pod, as the watch shows it, its stream and its client's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.common.pods import why_ended

if TYPE_CHECKING:
    from agents.common.pods import Pod
    from rshagent.call.bootstrap import Mark
    from rshagent.session.engine import Engine
    from rshagent.session.parts import Parts
    from rshagent.session.target import ExecTarget
    from rshagent.session.wire import Wire


class View:
    """One session's view, in which nothing is looked up before somebody asks: most events need one or two of these.

    Without a watch over its namespace the worker is ready, and never known to have ended.
    """

    __slots__ = ("_baseline", "_engine", "_instance", "parts", "stdio", "target", "wire")

    def __init__(self, engine: Engine, target: ExecTarget, mark: Mark, wire: Wire, parts: Parts) -> None:
        self._engine, self.target, self._instance = engine, target, mark.instance
        self.wire, self.stdio, self.parts = wire, wire.stdio, parts
        self._baseline: Pod | None = None  # the pod as it was when the command was requested

    @property
    def now(self) -> float:
        """Seconds of the loop's clock."""
        return self._engine.loop.now()

    @property
    def pod(self) -> Pod | None:
        """The worker's pod; None if there is none, or it is not watched."""
        pods = self._engine.watched(self.target.namespace)
        return None if pods is None else pods.get(self.target.pod)

    @property
    def is_ready(self) -> bool:
        """Whether a command may be started in the worker."""
        pod = self.pod
        return self._engine.watched(self.target.namespace) is None if pod is None else pod.ready

    @property
    def is_in_danger(self) -> bool:
        """Whether a cleanup is under way in the pod that would kill what is started now."""
        return self._engine.is_in_danger(self.target.pod, self._instance)

    @property
    def finds_workers(self) -> bool:
        """Whether the hub finds workers by a label: one that does not exist may be scaled away."""
        return self._engine.finds_workers

    def remember(self) -> Pod | None:
        """Take the pod as it is for the one that runs the command; return it."""
        self._baseline = self.pod
        return self._baseline

    def worker_end(self) -> tuple[str, int] | None:
        """Return why the worker can't be running the command any more, and the exit code for that; None if it may."""
        if self._engine.watched(self.target.namespace) is None:
            return None
        if self._baseline is None:
            self._baseline = self.pod
        return None if self._baseline is None else why_ended(self._baseline, self.pod, self.target.container)
