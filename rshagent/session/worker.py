"""The pod of a session, as the watch shows it: whether it is ready, and may still be running the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.common.pods import why_ended

if TYPE_CHECKING:
    from agents.common.pods import Pod
    from rshagent.session.engine import Engine
    from rshagent.session.target import ExecTarget


class Worker:
    """One session's worker. Without a watch over its namespace it is ready, and never known to have ended."""

    __slots__ = ("_baseline", "_engine", "_target")

    def __init__(self, engine: Engine, target: ExecTarget) -> None:
        self._engine, self._target = engine, target
        self._baseline: Pod | None = None  # as it was when the command was requested

    @property
    def is_watched(self) -> bool:
        """Say whether anything is known of it."""
        return self._engine.is_watched(self._target.namespace)

    @property
    def pod(self) -> Pod | None:
        """The pod as it is; None if there is none, or it is not watched."""
        pods = self._engine.pods
        return pods.get(self._target.pod) if pods is not None and self.is_watched else None

    @property
    def is_ready(self) -> bool:
        """Say whether a command may be started."""
        pod = self.pod
        return pod.ready if pod is not None else not self.is_watched

    def remember(self) -> Pod | None:
        """Take the pod as it is for the one that runs the command; return it."""
        self._baseline = self.pod
        return self._baseline

    def end(self) -> tuple[str, int] | None:
        """Return why it can't be running the command any more, and the exit code for that; None if it may."""
        if not self.is_watched:
            return None
        if self._baseline is None:
            self._baseline = self.pod
        return None if self._baseline is None else why_ended(self._baseline, self.pod, self._target.container)
