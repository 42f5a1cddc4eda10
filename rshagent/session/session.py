"""One session, from the call to its exit code: feeds the state machine (`machine`) and performs its effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.common.loop import NO_TIMER
from rshagent.call import bootstrap
from rshagent.session import machine
from rshagent.session.decisions import PASSED_ON
from rshagent.session.events import (
    Do,
    On,
    PassSignal,
    Reap,
    ReportRetry,
    Resume,
    Say,
    SendSignal,
    SetTimer,
    State,
    Stop,
    StreamEnded,
    UseContainer,
    WorkerEnded,
)
from rshagent.session.facts import Facts
from rshagent.session.machine import HOLDS, NOT_REQUESTED, OVER, RECOVERY, SLOT, STREAM
from rshagent.session.parts import Parts
from rshagent.session.view import View
from rshagent.session.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.call.bootstrap import Mark
    from rshagent.net.stdio import Stdio
    from rshagent.session.engine import Engine
    from rshagent.session.events import Effect, Event
    from rshagent.session.target import ExecTarget, Options

_STOP_GRACE_S = 1.0  # Open MPI kills its agents while their daemons are about to end by themselves
_WORKER_END_S = 1.0  # the stream may be about to report the same, and more exactly
_LOST = "the stream was lost; further output is unavailable; waiting for the command's exit"


class Session:
    """One session; `facts` and `stdio` have its exit code, and what there is to count, after `on_end(session)`.

    `on_requested(session)` is called before anything may have started, and when there is more for its resume token.
    """

    __slots__ = (
        "_events", "_is_busy", "_on_end", "_worker_timer", "command", "engine", "facts", "mark", "on_requested",
        "options", "parts", "stdio", "target", "view", "wire",
    )  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        target: ExecTarget,
        mark: Mark,
        stdio: Stdio,
        options: Options,
        on_end: Callable[[Session], None],
        on_requested: Callable[[Session], None],
    ) -> None:
        """Make a session; `start` or `resume` begins it."""
        self.engine, self.target, self.mark, self.stdio, self.options = engine, target, mark, stdio, options
        self._on_end, self.on_requested = on_end, on_requested
        self.command = b""  # until it has been started
        self.facts = Facts(engine.loop.now(), engine.limits, has_output=options.has_output)
        self.wire = Wire(stdio, self.facts, self.feed)
        self.parts = Parts(engine, target, mark, self.feed)
        self.view = View(engine, target, mark, self.wire, self.parts)
        self._worker_timer = NO_TIMER
        self._events: list[Event] = []
        self._is_busy = False
        engine.enter(self, mark)

    def start(self, command: bytes) -> None:
        """Start a shell command in the worker."""
        if self.options.wants_terminal and self.stdio.is_terminal:
            self.stdio.say("rshagent: the command gets no terminal (-t): its input and output are plain streams")
        self.command = command
        self.feed(On.BEGIN)

    def resume(self, pid: int | None) -> None:
        """Take over a session that another hub started, whose stream is lost; `pid` is its process id, if known."""
        self.view.remember()
        self.feed(Resume(pid))

    def signal(self, number: int) -> None:
        """Pass a signal on; all except the user's own ones end the session with 128+n (docs/protocol.md)."""
        if number in PASSED_ON:
            self.feed(PassSignal(number))
        else:
            self.end(number)

    def end(self, number: int | None, grace_s: float = _STOP_GRACE_S) -> None:
        """End the session: `number` is the signal that said so, None if the client died."""
        if number is None:
            self.engine.client_left(self, self.mark)
        self.feed(Stop(number, grace_s))

    def leave(self) -> None:
        """Take a session that is ending for ended, whatever may be left of it."""
        self.feed(On.LEAVE)

    def abandon(self) -> None:
        """Give up after an error of our own."""
        self.feed(On.ABANDON)

    def pod_changed(self) -> None:
        """Look at the worker's pod again."""
        if self.facts.state is State.WAITING and self.view.is_ready:
            self.feed(On.WORKER_READY)
        elif self._is_requested and self._worker_timer is NO_TIMER and self.view.worker_end() is not None:
            self._worker_timer = self.engine.loop.call_later(_WORKER_END_S, self._look_at_worker)

    def _look_at_worker(self) -> None:
        self._worker_timer = NO_TIMER
        ended = self.view.worker_end() if self._is_requested else None
        if ended is not None:
            self.feed(WorkerEnded(*ended))

    @property
    def _is_requested(self) -> bool:
        return self.facts.state not in (*NOT_REQUESTED, *OVER)

    def feed(self, event: Event) -> None:
        """Take an event; one that comes while effects are performed is taken after them."""
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._events:
                self._take(self._events.pop(0))
        finally:
            self._is_busy = False

    def _take(self, event: Event) -> None:
        before = self.facts.state
        effects = machine.step(self.facts, event, self.view)
        held = HOLDS.get(self.facts.state, ())
        if isinstance(event, StreamEnded) or STREAM not in held:
            self.wire.close_stream()
        if self.facts.state is not before:
            self.parts.release(keeps_recovery=RECOVERY in held)
        for effect in effects:
            _PERFORM[effect if isinstance(effect, Do) else type(effect)](self, effect)
        if SLOT in HOLDS.get(before, ()) and SLOT not in held:
            self.engine.limiter.leave(self)

    def granted(self) -> None:
        """Take the start slot."""
        self.feed(On.SLOT_GRANTED)

    def timed_out(self) -> None:
        """Take the end of the timer."""
        self.feed(On.TIMEOUT)

    def open_stream(self) -> None:
        """Tell the client what finds the session again, then send the request."""
        spared = self.engine.begin_cleanup(self, self.target, self.mark.instance, self.options.life)
        request = bootstrap.request(
            self.command,
            self.mark,
            attempt=self.facts.retries,
            sweep=spared is not None,
            spared=spared or (),
            forwards_stdin=self.stdio.reads_stdin,
            text_by_stdin=self.options.text_by_stdin or self.engine.text_by_stdin,
        )
        pod = self.view.remember()
        if self.target.container is None and pod is not None:
            self.target.container = pod.main_container or None
        events = len(self._events)
        self.on_requested(self)
        if len(self._events) == events:  # else the client could not be told: it has died
            self.wire.open(self.engine, self.target, request, bootstrap.acknowledgement(self.mark.session))

    def note_start(self) -> None:
        """Forget the command, and take note of the cleanup that it began with."""
        self.command = b""  # kilobytes
        instance, spared = self.mark.instance, self.engine.end_cleanup(self, self.target.pod)
        if spared is not None and not set(spared) - {f"{instance}:", self.options.life}:
            self.engine.swept(self.target.pod, instance)  # else others may leave something yet

    def say(self, text: str) -> None:
        """Write a line about the worker to the client's stderr."""
        self.stdio.say(f"rshagent: {self.target.pod}: {text}")

    def trace(self) -> None:
        """Write the trace line, if it is on."""
        if self.options.is_traced:
            facts, now = self.facts, self.engine.loop.now()
            start_s = facts.acknowledged_at - facts.created_at
            started = f"started after {start_s:.3f} s" if facts.acknowledged_at else "not started"
            ended = f"ended after {now - facts.created_at:.3f} s"
            self.stdio.say(f"+ rshagent {self.target}: exit {facts.code}, {started}, {ended}")

    def close(self) -> None:
        """Close everything, and report the end."""
        self.parts.close()
        self._worker_timer.cancel()
        self.stdio.close()
        self.engine.end_cleanup(self, self.target.pod)
        self.engine.leave(self, self.mark)
        self.engine.limiter.leave(self)
        self._on_end(self)


_PERFORM: dict[Do | type[Effect], Callable[[Session, Any], object]] = {
    Do.QUEUE: lambda session, _: session.engine.limiter.enter(session, session.granted),
    Do.OPEN_STREAM: lambda session, _: session.open_stream(),
    Do.CLOSE_STREAM: lambda session, _: session.wire.close_stream(),
    Do.RESUME_STREAM: lambda session, _: session.wire.resume(),
    Do.NOTE_START: lambda session, _: session.note_start(),
    Do.END_CLEANUP: lambda session, _: session.engine.end_cleanup(session, session.target.pod),
    Do.TELL_CLIENT: lambda session, _: session.on_requested(session),
    Do.START_STDIN: lambda session, _: session.stdio.start_reading(),
    Do.STOP_STDIN: lambda session, _: session.stdio.stop_reading(),
    Do.CLOSE_STDIO: lambda session, _: session.stdio.close(),
    Do.WARN_LOST: lambda session, _: session.say(_LOST) if session.stdio.received else None,
    Do.ASK_WORKER: lambda session, _: session.parts.ask_worker(session.facts.pid),
    Do.TRACE: lambda session, _: session.trace(),
    Do.DRAIN: lambda session, _: None if session.stdio.is_behind else session.feed(On.DRAINED),
    Do.CLOSE: lambda session, _: session.close(),
    SetTimer: lambda session, effect: session.parts.set_timer(effect.seconds, session.timed_out),
    Say: lambda session, effect: session.say(effect.text),
    ReportRetry: lambda session, effect: session.engine.on_retry(session.mark, session.facts.retries, effect.reason),
    UseContainer: lambda session, effect: setattr(session.target, "container", effect.name),
    SendSignal: lambda session, effect: session.parts.send_signal(effect.name),
    Reap: lambda session, effect: session.parts.reap(effect.signal_name),
}
"""How each effect is performed."""
