"""One launch, from the agent's call to its exit code, whatever happens in between.

    queued ─► waiting ─► asked ─────► acknowledged ─► draining ─► ended
       ▲                   │ stream lost   │ stream lost            ▲
       │                   ├─► finding ────┴─► settling ────────────┤
       └──── backoff ◄─────┴──────┘                                 │
    any of them ── told to end, or the client died ─► ending ───────┘

queued        for a place among the starts that are under way
waiting       for a worker that is not there or not ready
backoff       for the next try
asked         the request is on its way; nobody knows yet whether the command started
acknowledged  the command runs (its bootstrap said so): from here on nothing is tried again
finding       the stream was lost before the acknowledgement: the worker is asked whether the command runs
settling      the stream ended without a status: the worker is asked how the session ends
ending        the client has gone, or asked for the end: a second's grace, then the session's processes are ended
draining      the exit code is known, but the reader of stdout or stderr is behind
ended         all descriptors are closed; then `on_end` is called, once

What ends a session is a status, a settled end, the watch's word that the worker is gone, or the client. A launch that
fails is never retried once its command was acknowledged or found, and no end without a status is taken for success.
"""

from __future__ import annotations

from rshagent import bootstrap
from rshagent.execution import Execution, Listener, Where
from rshagent.retry import Backoff
from rshagent.status import AGENT_FAILED, Exited, Failure
from rshagent.streams import Acknowledged, Opened, Output

TYPE_CHECKING = False  # typing costs every launch 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.bootstrap import Mark, Request
    from rshagent.control import Messenger, Reaper
    from rshagent.engine import Engine
    from rshagent.loop import Timer
    from rshagent.pods import Pod
    from rshagent.settler import Settler
    from rshagent.stdio import Stdio
    from rshagent.streams import Event

# Signals by number on Linux, without importing `signal`: the first are only passed on, all others end a session.
PASSED_ON = {10: "USR1", 12: "USR2", 14: "ALRM"}
ENDING = {1: "HUP", 2: "INT", 3: "QUIT", 15: "TERM"}
_PIPE = 13
_NOT_ASKED = ("queued", "waiting", "backoff")

_OUTPUT_LOST = "the stream was lost, so what the command writes from here on is not to be seen"
_GRACE_S = 1.0  # Open MPI kills its agents while their daemons are about to end by themselves
_SECOND_LOOK_S = 1.0
_LASTING_S = 1.0


class Times:
    """When what happened, in seconds of the loop's clock; 0 for what did not."""

    __slots__ = ("acknowledged", "asked", "created", "ended")

    def __init__(self, created: float) -> None:
        self.created = created
        self.asked = self.acknowledged = self.ended = 0.0


class Launch(Listener):
    """One launch; see the module for its states.

    After `on_end(launch)`, `code` is the exit code, `reason` a line about a failure of our own (else ""), and `times`,
    `retries` and `stdio` have what there is to count.
    """

    __slots__ = (
        "_backoff", "_baseline", "_deadline", "_early_signals", "_engine", "_execution", "_failed_at", "_is_open",
        "_is_orphan", "_may_run", "_messengers", "_on_asked", "_on_end", "_pid", "_reaper", "_request", "_settler",
        "_signal", "_takes_unready", "_text", "_timer", "code", "is_traced", "mark", "reason", "retries", "state",
        "stdio", "text_by_stdin", "times", "wants_terminal", "where",
    )  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        where: Where,
        mark: Mark,
        stdio: Stdio,
        on_end: Callable[[Launch], None],
        on_asked: Callable[[Launch], None],
    ) -> None:
        """Make a launch; `start` or `resume` begins it. `on_asked` is called before anything may have started."""
        self._engine, self.where, self.mark = engine, where, mark
        self._on_end, self._on_asked = on_end, on_asked
        self.stdio = stdio
        stdio.attach(on_data=self._read, on_drained=self._drained, on_broken=self._broken)
        self._text: bytes | None = None
        self._request: Request | None = None
        self._execution: Execution | None = None
        self._settler: Settler | None = None
        self._reaper: Reaper | None = None
        self._messengers: list[Messenger] = []
        self._backoff = Backoff()
        self._baseline: Pod | None = None
        self._timer: Timer | None = None
        self._deadline = self._failed_at = 0.0
        self._early_signals: list[int] = []
        self._is_open = self._may_run = self._takes_unready = False
        self._pid: int | None = None
        self._signal: int | None = None
        self._is_orphan = False
        self.state = "queued"
        self.is_traced = self.wants_terminal = False
        self.text_by_stdin = engine.text_by_stdin
        self.code, self.reason = AGENT_FAILED, ""
        self.times = Times(engine.loop.now())
        self.retries = 0
        engine.launches.setdefault(where.pod, set()).add(self)

    @property
    def pid(self) -> int | None:
        """The bootstrap's process id in the worker, once it is known."""
        return self._pid

    @property
    def ended_by_signal(self) -> bool:
        """Say whether a signal to the agent ended the session."""
        return self._signal is not None

    @property
    def is_client_dead(self) -> bool:
        """Say whether the agent died before the session did."""
        return self._is_orphan

    def abandon(self) -> None:
        """Give up after an error of our own."""
        self._finish(AGENT_FAILED, "an internal error of the agent; the hub's log says where")

    def start(self, text: bytes) -> None:
        """Start TEXT in the worker."""
        if self.wants_terminal and self.stdio.is_terminal:
            self.stdio.say("rshagent: the command gets no terminal (-t): its input and output are plain streams")
        self._text = text
        self._engine.gate.enter(self, self._try)

    def resume(self, pid: int | None) -> None:
        """Take over a session that another hub started, whose stream is lost."""
        self._pid = pid
        self._baseline = self._pod()
        self._settle()

    def signal(self, number: int) -> None:
        """Pass a signal on; all but the user's own ones end the session with 128+n (docs/protocol.md)."""
        if number not in PASSED_ON:
            self.end(number)
        elif self.state in ("acknowledged", "settling"):
            self._pass_on(PASSED_ON[number])
        else:
            self._early_signals.append(number)

    def end(self, number: int | None, grace_s: float = _GRACE_S) -> None:
        """End the session: `number` is the signal that said so, None where the client has died."""
        if self.state in ("ending", "ended"):
            return
        self._signal, self._is_orphan = number, number is None
        if self.state in _NOT_ASKED:
            grace_s = 0.0  # there is no stream that could end by itself
        self.reason = _why(number)
        self.code = 128 + (number & 0x7F) if number is not None else AGENT_FAILED
        self._engine.gate.leave(self)
        self._cancel()
        if self._settler is not None:
            self._settler.close()
            self._settler = None
        if self.state == "draining" or (self.state in _NOT_ASKED and not self._may_run):
            self._end_now()
            return
        if number is None:  # nobody reads or writes these any more, and their other ends may wait for the close
            self.stdio.close()
            if self._execution is not None:
                self._execution.resume()
        self.state = "ending"
        self._timer = self._engine.loop.call_later(grace_s, self._reap)

    def pod_changed(self) -> None:
        """Look at the worker's pod again."""
        if self.state == "waiting" and self._is_ready():
            self._cancel()
            self._again()
        elif self.state in ("asked", "finding", "acknowledged", "settling", "ending") and self._engine.is_watched(
            self.where.namespace
        ):
            self._check_worker()

    def exec_event(self, event: Event) -> None:
        """Take what the stream brings."""
        if isinstance(event, Output):
            self.stdio.write(event.channel, event.data)
            if self.stdio.is_behind and self._execution is not None:
                self._execution.pause()
        elif isinstance(event, Opened):
            self._is_open = True
            if self._execution is not None and self._request is not None and self._request.stdin:
                self._execution.send(self._request.stdin)
        elif isinstance(event, Acknowledged):
            self._acknowledge(event.pid)

    def exec_drained(self) -> None:
        """Read on from stdin."""
        self.stdio.resume_reading()

    def exec_stalled(self) -> None:
        """Ask how the command is: a stream that hangs on its stdin may not even bring its end."""
        if self.state == "acknowledged" and self._settler is None:
            self._settler = self._make_settler(self._settled_meanwhile)

    def exec_ended(self, outcome: Exited | Failure | None, reason: str) -> None:
        """Decide what the end of the stream means."""
        execution, self._execution = self._execution, None
        if isinstance(outcome, Exited) and outcome.code == 0 and (execution is None or not execution.is_confirmed):
            outcome, reason = None, "the API server told of a success that the command did not"
        if self.state == "ending":
            self._ended_while_ending(outcome)
        elif self.state == "asked":
            self._not_acknowledged(outcome, reason, may_run=execution is not None and execution.may_run)
        elif isinstance(outcome, Exited):
            self._finish(outcome.code, "")
        elif self.state == "acknowledged":
            # A failure that the server tells of after the start is about the stream, not about the command.
            if self.stdio.received:
                self.stdio.say(f"rshagent: {self.where.pod}: {_OUTPUT_LOST}; its end is waited for")
            self._settle()

    def _try(self) -> None:
        """Begin a try, once there is a place for it."""
        if self._is_ready() or self._takes_unready:
            self._ask()
            return
        self.state = "waiting"
        self._engine.gate.leave(self)
        self._wait(self._engine.loop.now())

    def _wait(self, since: float) -> None:
        """Wait for a worker as long as what it is now is worth waiting for."""
        pod, limits = self._pod(), self._engine.limits
        runs = pod is not None and pod.phase == "Running"
        is_gone = pod is None and self._engine.finds_workers
        limit_s = limits["unready" if runs else "absent" if is_gone else "worker"]
        left_s = since + limit_s - self._engine.loop.now()
        if left_s > 0:
            self._timer = self._engine.loop.call_later(left_s, lambda: self._wait(since))
        elif runs:  # its probe may be about something else than MPI
            self._takes_unready = True
            self._again()
        else:
            state = f"it is {pod.phase or 'in no phase'}" if pod is not None else "there is no such pod"
            self._finish(AGENT_FAILED, f"the worker did not become ready within {limit_s:.0f} s: {state}")

    def _ask(self) -> None:
        assert self._text is not None
        engine = self._engine
        self._request = bootstrap.request(
            self._text,
            self.mark,
            attempt=self.retries,
            sweep=engine.needs_sweep(self.where.pod, self.mark.instance),
            forwards_stdin=self.stdio.reads_stdin,
            text_by_stdin=self.text_by_stdin,
        )
        self.state, self._is_open = "asked", False
        self._baseline = self._pod()
        if self.where.container is None and self._baseline is not None:
            self.where.container = self._baseline.main_container or None
        self.times.asked = engine.loop.now()
        if not self._deadline:
            self._deadline = self.times.asked + engine.limits["start"]
        self._on_asked(self)
        if self.state != "asked":  # the client could not be told: it has died
            return
        self._execution = Execution(
            engine,
            self.where,
            self._request.command,
            self,
            stdin=self._request.needs_stdin,
            acknowledgement=bootstrap.acknowledgement(self.mark.session),
        )
        self._timer = engine.loop.call_later(engine.limits["acknowledge"], self._unacknowledged)

    def _acknowledge(self, pid: int) -> None:
        self._pid = pid or None
        self.times.acknowledged = self._engine.loop.now()
        if self.state != "asked":  # it started while it was already told to end
            return
        self.state = "acknowledged"
        self._started()
        # With the pid. Most commands are over before this is worth a message.
        self._timer = self._engine.loop.call_later(_LASTING_S, self._tell_pid)
        self.stdio.start_reading()

    def _started(self) -> None:
        """The command runs, or ran: nothing is asked again."""
        self._text = self._request = None  # kilobytes
        self._cancel()
        self._engine.gate.leave(self)
        self._engine.swept(self.where.pod, self.mark.instance)
        for number in self._early_signals:
            self._pass_on(PASSED_ON[number])
        self._early_signals.clear()

    def _tell_pid(self) -> None:
        self._on_asked(self)

    def _read(self, data: bytes) -> None:
        """Send what came from stdin; its end is passed on where the protocol can."""
        if self._execution is None:
            return
        if not data:
            self._execution.close_stdin()
            return
        self._execution.send(data)
        if self._execution.is_behind:
            self.stdio.pause_reading()

    def _unacknowledged(self) -> None:
        if self._execution is not None:
            self._execution.close()
        self.exec_ended(None, f"the worker did not start the command within {self._engine.limits['acknowledge']:.0f} s")

    def _not_acknowledged(self, outcome: Exited | Failure | None, reason: str, *, may_run: bool) -> None:
        """Look whether it runs all the same, or try again, unless that can't help or the time is over."""
        self._cancel()
        if isinstance(outcome, Exited):
            self._finish(outcome.code, f"the command did not start (its shell ended with {outcome.code})")
            return
        may_run = may_run and outcome is None  # the stream was lost, and with it perhaps an acknowledgement
        self._may_run |= may_run
        failure = outcome or Failure(reason, retryable=True)
        if self.where.container is None and failure.containers:
            self.where.container = failure.containers[0]  # as kubectl does
            self._ask()
            return
        is_text_there = self._is_open or self._request is None or not self._request.stdin
        if may_run and is_text_there and not self.stdio.reads_stdin:
            self._find(failure)
        else:
            self._retry(failure)

    def _find(self, failure: Failure) -> None:
        """Ask for a command that may have started unheard: one that mpirun has heard of is not started again."""
        self._engine.gate.leave(self)
        self.state = "finding"

        def ended(code: int | None, reason: str) -> None:
            if code is not None:
                self._found()
            if self.state == "settling":
                self._settled(code, reason)
            else:
                self._not_found(failure)

        left_s = max(0.0, self._deadline - self._engine.loop.now())
        self._timer = self._engine.loop.call_later(left_s, lambda: self._not_found(failure))
        self._settler = self._make_settler(ended, self._found)

    def _found(self) -> None:
        if self.state == "finding":
            self.state = "settling"
            self.times.acknowledged = self._engine.loop.now()
            self._started()

    def _not_found(self, failure: Failure) -> None:
        self._cancel()
        self._let_go()
        self._retry(failure)

    def _retry(self, failure: Failure) -> None:
        delay_s = self._backoff.delay_s(failure.retry_after_s)
        now, patience_s = self._engine.loop.now(), failure.patience_s
        self._failed_at = self._failed_at or now
        deadline = self._deadline if patience_s is None else min(self._deadline, self._failed_at + patience_s)
        if not failure.retryable or now + delay_s > deadline:
            tries = f" ({self._backoff.tries} tries)" if self._backoff.tries > 1 else ""
            self._give_up(failure.exit_code, failure.message + tries)
            return
        self.retries += 1
        self._engine.on_retry(self, failure.message)
        self._engine.gate.leave(self)
        self.state = "backoff"
        self._timer = self._engine.loop.call_later(delay_s, self._again)

    def _give_up(self, code: int, reason: str) -> None:
        """Fail; if a try may have started the command after all, end that first."""
        if not self._may_run:
            self._finish(code, reason)
            return
        self.code, self.reason, self.state = code, reason, "ending"
        self._engine.gate.leave(self)
        self.stdio.say(f"rshagent: {self.where.pod}: {reason}")
        self._reap()

    def _again(self) -> None:
        self.state = "queued"
        self._engine.gate.enter(self, self._try)

    def _settle(self) -> None:
        self.state = "settling"
        self.stdio.stop_reading()
        if self._settler is not None:
            self._settler.close()
        self._settler = self._make_settler(self._settled)

    def _make_settler(
        self, on_settled: Callable[[int | None, str], None], on_alive: Callable[[], None] | None = None
    ) -> Settler:
        from rshagent.settler import Settler  # noqa: PLC0415 (no launch that goes well pays for it)

        return Settler(self._engine, self.where, self.mark, self._pid, on_settled, on_alive)

    def _settled_meanwhile(self, code: int | None, reason: str) -> None:
        """Take what is known of a command whose stream hangs, or hung: it may bring the end itself."""
        self._settler = None
        if code is not None:  # its last output is on its way
            self._cancel()
            self._timer = self._engine.loop.call_later(_GRACE_S, lambda: self._finish(code, ""))
        elif self._execution is not None and self._execution.is_silent:
            self._settled(None, reason)

    def _settled(self, code: int | None, reason: str) -> None:
        self._settler = None
        if code is None:
            self._finish(AGENT_FAILED, f"the stream was lost, and how the command ended is unknown: {reason}")
        elif code == 0 and self.stdio.received:  # Horovod's ranks write by it: a job without its output is no success
            self._finish(AGENT_FAILED, "the command ended with 0, but the stream was lost, and output with it")
        else:
            self._finish(code, "")

    def _check_worker(self) -> None:
        # The stream may be about to tell the same, and more exactly.
        if self._worker_end() is not None:
            self._engine.loop.call_later(_GRACE_S, self._check_worker_again)

    def _check_worker_again(self) -> None:
        ended = self._worker_end()
        if ended is None:
            return
        reason, code = ended
        if self.state == "asked":  # the next worker of its name may be there already
            if self._execution is not None:
                self._execution.close()
            self.exec_ended(None, reason)
        elif self.state == "finding":
            self._not_found(Failure(reason, retryable=True))
        elif self.state in ("acknowledged", "settling"):
            self._finish(code, reason)
        elif self.state == "ending":
            self._end_now()

    def _worker_end(self) -> tuple[str, int] | None:
        """Say why the worker can't be running the command any more, and with which exit code; None if it may."""
        from rshagent.pods import why_ended  # noqa: PLC0415 (only where there is a watch; it imports typing)

        if self._baseline is None:
            self._baseline = self._pod()
        return None if self._baseline is None else why_ended(self._baseline, self._pod(), self.where.container)

    def _pass_on(self, name: str) -> None:
        from rshagent.control import Messenger  # noqa: PLC0415

        self._messengers = [messenger for messenger in self._messengers if not messenger.is_done]
        self._messengers.append(Messenger(self._engine, self.where, self.mark, name))

    def _reap(self) -> None:
        """End what the session left in the worker."""
        from rshagent.control import Reaper  # noqa: PLC0415

        name = ENDING.get(self._signal or 0, "TERM")
        self._reaper = Reaper(self._engine, self.where, self.mark, name, self._reaped)

    def _reaped(self, reason: str) -> None:
        self._reaper = None
        if reason:
            self.reason += f"; {reason}"
        elif not self.times.acknowledged and self._execution is not None:
            # The request may still be on its way through the API server and the kubelet.
            self._timer = self._engine.loop.call_later(_SECOND_LOOK_S, self._second_look)
            return
        self._end_now()

    def _second_look(self) -> None:
        if self._execution is not None:
            self._execution.close()
            self._execution = None
        self._reap()

    def _ended_while_ending(self, outcome: Exited | Failure | None) -> None:
        if self._reaper is None and isinstance(outcome, Exited):
            self._cancel()
            self._end_now()

    def _finish(self, code: int, reason: str) -> None:
        """Say why where it is our failure, then end as soon as all output is out."""
        if self.state in ("draining", "ended"):
            return
        self.code, self.reason = code, reason
        self._engine.gate.leave(self)
        self._cancel()
        self._let_go()
        if reason:
            self.stdio.say(f"rshagent: {self.where.pod}: {reason}")
        if self.is_traced:
            self.stdio.say(self._trace())
        self.state = "draining"
        self._drained()

    def _trace(self) -> str:
        times, now = self.times, self._engine.loop.now()
        started = f"started after {times.acknowledged - times.created:.3f} s" if times.acknowledged else "not started"
        return f"+ rshagent {self.where}: exit {self.code}, {started}, ended after {now - times.created:.3f} s"

    def _drained(self) -> None:
        """Go on when a reader has caught up."""
        if self.stdio.is_behind:
            return
        if self.state == "draining":
            self._end_now()
        elif self._execution is not None:
            self._execution.resume()

    def _broken(self) -> None:
        """Treat a stdout that nobody reads any more as ssh does: as the end of the client."""
        if self.state == "draining":
            self._drained()
        else:
            self.end(_PIPE, 0)

    def _let_go(self) -> None:
        """Let go of what still runs for this launch, but not of its output."""
        if self._execution is not None:
            self._execution.close()
            self._execution = None
        if self._settler is not None:
            self._settler.close()
            self._settler = None

    def _end_now(self) -> None:
        if self.state == "ended":
            return
        self.state = "ended"
        self.times.ended = self._engine.loop.now()
        self._cancel()
        for part in (self._execution, self._settler, self._reaper, *self._messengers):
            if part is not None:
                part.close()
        self.stdio.close()
        peers = self._engine.launches.get(self.where.pod)
        if peers is not None:
            peers.discard(self)
            if not peers:
                del self._engine.launches[self.where.pod]
        self._engine.gate.leave(self)
        self._on_end(self)

    def _is_ready(self) -> bool:
        pod = self._pod()
        return not self._engine.is_watched(self.where.namespace) or (pod is not None and pod.ready)

    def _pod(self) -> Pod | None:
        if not self._engine.is_watched(self.where.namespace):
            return None
        assert self._engine.pods is not None
        return self._engine.pods.get(self.where.pod)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _why(signal: int | None) -> str:
    if signal is None:
        return "the client has died"
    return "nobody reads its output any more" if signal == _PIPE else f"ended by SIG{ENDING.get(signal, signal)}"
