"""One launch, from the agent's call to its exit code, whatever happens in between.

    waiting ◄─► queued ────► asked ──────► acknowledged ─────────┬─► draining ─► ended
                  ▲            │ stream lost    │ stream lost    │                 ▲
                  │            ├─► finding ─────┴─► settling ────┤                 │
                  └─ backoff ◄─┴──────┘                          │                 │
    any of them ── failed for good ──────────────────────────────┘                 │
    any of them ── told to end, or the client died ─► ending ──────────────────────┘

queued        for a place among the starts that are under way
waiting       for a worker that is not there or not ready
backoff       for the next try
asked         the request is on its way; nobody knows yet whether the command started
acknowledged  the command runs (its bootstrap said so): from here on nothing is tried again
finding       the stream was lost before the acknowledgement: the worker is asked whether the command runs
settling      the stream ended without a status, or was another hub's: the worker is asked how the session ends
ending        the client has gone, or asked for the end, or all tries failed and one may yet run: see `termination`
draining      the exit code is known, but the reader of stdout or stderr is behind
ended         all descriptors are closed; then `on_end` is called, once

What ends a session is a status, a settled end, the watch's word that the worker is gone, or the client. A launch that
fails is never retried once its command was acknowledged or found, and no end without a status is taken for success.

What follows from what is in `decisions`; here the state is kept, and what was decided is done.
"""

from __future__ import annotations

from rshagent.call import bootstrap
from rshagent.session import decisions
from rshagent.session.decisions import ENDING, PASSED_ON, PIPE, AskIn, Find, Finish, Tries
from rshagent.session.execution import Execution, Listener, Where
from rshagent.stream.status import AGENT_FAILED, Exited, Failure
from rshagent.stream.streams import Acknowledged, Opened, Output

TYPE_CHECKING = False  # typing costs every launch 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.common.loop import Timer
    from agents.common.pods import Pod
    from rshagent.call.bootstrap import Mark, Request
    from rshagent.net.stdio import Stdio
    from rshagent.session.control import Messenger
    from rshagent.session.engine import Engine
    from rshagent.session.settler import Settler
    from rshagent.session.termination import Termination
    from rshagent.stream.streams import Event

__all__ = ("ENDING", "PASSED_ON", "Launch", "Times")

NOT_ASKED = ("queued", "waiting", "backoff")

_GRACE_S = 1.0  # Open MPI kills its agents while their daemons are about to end by themselves
_LASTING_S = 1.0
_CLEANED_S = 0.1


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
        "_baseline", "_early_signals", "_engine", "_execution", "_failure", "_is_open", "_is_orphan", "_kept_code",
        "_may_run", "_messengers", "_on_asked", "_on_end", "_pid", "_request", "_settler", "_signal", "_takes_unready",
        "_termination", "_text", "_timer", "_tries", "_waits_since", "caller", "code", "cut", "has_output",
        "is_traced", "life", "mark", "ours", "reason", "retries", "state", "stdio", "text_by_stdin", "times",
        "wants_terminal", "where",
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
        """Make a launch; `start` or `resume` begins it.

        `on_asked` is called before anything may have started.
        """
        self._engine, self.where, self.mark = engine, where, mark
        self._on_end, self._on_asked = on_end, on_asked
        self.stdio = stdio
        stdio.attach(on_data=self._read, on_drained=self._drained, on_broken=self._broken)
        self._text: bytes | None = None
        self._request: Request | None = None
        self._execution: Execution | None = None
        self._settler: Settler | None = None
        self._termination: Termination | None = None
        self._messengers: list[Messenger] = []
        self._tries = Tries()
        self._baseline: Pod | None = None  # the worker as it was when the command was asked for
        self._timer: Timer | None = None
        self._waits_since = 0.0
        self._failure: Failure | None = None  # of the try whose command is looked for
        self._kept_code: int | None = None  # what the worker says that the command ended with
        self._early_signals: list[int] = []
        self._is_open = self._takes_unready = False
        self.has_output = True  # of the job, that is (`decisions.has_output`)
        self._may_run = False  # a try may have started the command unheard
        self._pid: int | None = None
        self._signal: int | None = None
        self._is_orphan = False
        self.state = "queued"
        self.is_traced = self.wants_terminal = False
        self.text_by_stdin = engine.text_by_stdin
        self.code, self.reason = AGENT_FAILED, ""
        self.caller = ""  # the MPI launcher that called the agent, as the client names it
        self.cut = ""  # by what the command ended, if that was neither itself nor us
        self.ours: tuple[int, ...] = ()  # signals by which the command may have ended that we sent
        self.times = Times(engine.loop.now())
        self.retries = 0
        self.life = ""  # how instances begin that live as long as ours does (`surroundings.life`)
        engine.launches.setdefault(where.pod, set()).add(self)
        engine.living.setdefault(mark.instance, set()).add(self)

    @property
    def pid(self) -> int | None:
        """The bootstrap's process id in the worker, once it is known."""
        return self._pid

    @property
    def text_size(self) -> int:
        """Return how many bytes of the command are held: none once it has been started."""
        return len(self._text or b"")

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
        self._finish(Finish(AGENT_FAILED, "an internal error of the agent; the hub's log says where"))

    def start(self, text: bytes) -> None:
        """Start TEXT in the worker."""
        if self.wants_terminal and self.stdio.is_terminal:
            self.stdio.say("rshagent: the command gets no terminal (-t): its input and output are plain streams")
        self._text = text
        self._engine.gate.enter(self, self._try)

    def resume(self, pid: int | None, *, has_output: bool = True) -> None:
        """Take over a session that another hub started, whose stream is lost."""
        self._pid, self.has_output = pid, has_output
        self._baseline = self._pod()
        self._settle()

    def signal(self, number: int) -> None:
        """Pass a signal on; all but the user's own ones end the session with 128+n (docs/protocol.md)."""
        if number not in PASSED_ON:
            self.end(number)
        elif self.state in ("acknowledged", "settling"):
            self._pass_on(PASSED_ON[number])
        elif number not in self._early_signals:
            self._early_signals.append(number)

    def end(self, number: int | None, grace_s: float = _GRACE_S) -> None:
        """End the session: `number` is the signal that said so, None where the client has died."""
        if number is None:
            self._engine.leave(self)
        if self.state in ("ending", "ended"):
            return
        self._signal, self._is_orphan = number, number is None
        told = decisions.told_to_end(number)
        self.code, self.reason = told.code, told.reason
        is_asked = self.state not in NOT_ASKED
        if self.state == "draining" or not (is_asked or self._may_run):
            self._end_now()
            return
        if number is None:  # nobody reads or writes these any more, and their other ends may wait for the close
            self.stdio.close()
            if self._execution is not None:
                self._execution.resume()
        self._terminate(grace_s if is_asked else 0.0)  # else there is no stream that could end by itself

    def leave(self) -> None:
        """Take a session that is being ended for ended, whatever may be left of it."""
        self._end_now()

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
            self._expect_more()
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
            self._ask_worker()

    def exec_ended(self, outcome: Exited | Failure | None, reason: str) -> None:
        """Decide what the end of the stream means."""
        execution, self._execution = self._execution, None
        is_confirmed = execution is not None and execution.is_confirmed
        outcome, reason = decisions.believed(outcome, reason, is_confirmed=is_confirmed)
        if isinstance(outcome, Exited) and self.times.acknowledged:
            self._note_status(outcome.code)
        if self._termination is not None:
            self._termination.stream_ended(outcome)
        elif self.state == "asked":
            self._not_acknowledged(outcome, reason, may_run=execution is not None and execution.may_run)
        elif isinstance(outcome, Exited):
            self._finish(Finish(outcome.code))
        elif self.state == "acknowledged":
            # A failure that the server tells of after the start is about the stream, not about the command.
            if self.stdio.received:
                lost = "the stream was lost, so what the command writes from here on is not to be seen"
                self.stdio.say(f"rshagent: {self.where.pod}: {lost}; its end is waited for")
            self._settle()

    def _try(self) -> None:
        """Begin a try, once there is a place for it."""
        if self._engine.is_in_danger(self.where.pod, self.mark.instance):
            self.state = "backoff"
            self._engine.gate.leave(self)
            self._after(_CLEANED_S, self._again)
            return
        if self._is_ready() or self._takes_unready:
            self._ask()
            return
        self.state = "waiting"
        self._engine.gate.leave(self)
        self._waits_since = self._engine.loop.now()
        self._wait()

    def _wait(self) -> None:
        engine = self._engine
        step = decisions.unready(
            self._pod(), self._waits_since, engine.loop.now(), engine.limits, finds_workers=engine.finds_workers
        )
        if isinstance(step, Finish):
            self._finish(step)
        elif step:
            self._after(step, self._wait)
        else:
            self._takes_unready = True
            self._again()

    def _again(self) -> None:
        self.state = "queued"
        self._engine.gate.enter(self, self._try)

    def _ask(self) -> None:
        assert self._text is not None
        engine = self._engine
        spared = engine.begin_cleanup(self, self.life)
        self._request = bootstrap.request(
            self._text,
            self.mark,
            attempt=self.retries,
            sweep=spared is not None,
            spared=spared or (),
            forwards_stdin=self.stdio.reads_stdin,
            text_by_stdin=self.text_by_stdin,
        )
        self.state, self._is_open = "asked", False
        self._baseline = self._pod()
        if self.where.container is None and self._baseline is not None:
            self.where.container = self._baseline.main_container or None
        self.times.asked = engine.loop.now()
        self._tries.begin(self.times.asked, engine.limits["start"])
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
        self._after(engine.limits["acknowledge"], self._asked_too_long)

    def _asked_too_long(self) -> None:
        self._lose(f"the worker did not start the command within {self._engine.limits['acknowledge']:.0f} s")

    def _lose(self, reason: str) -> None:
        """Take the stream for lost."""
        if self._execution is not None:
            self._execution.close()
        self.exec_ended(None, reason)

    def _not_acknowledged(self, outcome: Exited | Failure | None, reason: str, *, may_run: bool) -> None:
        self._cancel()
        self._may_run |= may_run and outcome is None
        step = decisions.not_acknowledged(
            outcome,
            reason,
            may_run=may_run,
            has_text=self._is_open or self._request is None or not self._request.stdin,
            reads_stdin=self.stdio.reads_stdin,
            names_container=self.where.container is not None,
        )
        if isinstance(step, Finish):
            self._finish(step)
        elif isinstance(step, AskIn):
            self.where.container = step.container
            self._ask()
        elif isinstance(step, Find):
            self._find(step.failure)
        else:
            self._retry(step)

    def _retry(self, failure: Failure) -> None:
        step = self._tries.failed(failure, self._engine.loop.now())
        if isinstance(step, Finish):
            self._give_up(step)
            return
        self.retries += 1
        if not self._may_run:
            self._engine.end_cleanup(self, self.where.pod)
        self._engine.on_retry(self, failure.message)
        self._engine.gate.leave(self)
        self.state = "backoff"
        self._after(step, self._again)

    def _give_up(self, end: Finish) -> None:
        """Fail; if a try may have started the command after all, end that first."""
        if not self._may_run:
            self._finish(end)
            return
        self.code, self.reason = end.code, end.reason
        self._terminate(0.0)
        self.stdio.say(f"rshagent: {self.where.pod}: {end.reason}")

    def _acknowledge(self, pid: int) -> None:
        self._pid = pid or None
        self.times.acknowledged = self._engine.loop.now()
        if self._termination is not None:  # it started while it was already told to end
            self._termination.acknowledged()
            return
        self.state = "acknowledged"
        self._started()
        # With the pid. Most commands are over before this is worth a message.
        self._after(_LASTING_S, self._tell_pid)
        self.stdio.start_reading()

    def _started(self) -> None:
        """The command runs, or ran: nothing is asked again."""
        self._text = self._request = None  # kilobytes
        self._cancel()
        self._engine.gate.leave(self)
        spared = self._engine.end_cleanup(self, self.where.pod)
        if spared is not None and not set(spared) - {f"{self.mark.instance}:", self.life}:
            self._engine.swept(self.where.pod, self.mark.instance)  # else others may leave something yet
        for number in self._early_signals:
            self._pass_on(PASSED_ON[number])
        self._early_signals.clear()

    def _tell_pid(self) -> None:
        self._on_asked(self)

    def _pass_on(self, name: str) -> None:
        from rshagent.session.control import Messenger  # noqa: PLC0415

        self.ours = (*self.ours, *(one for one in PASSED_ON if PASSED_ON[one] == name and one not in self.ours))
        self._messengers = [messenger for messenger in self._messengers if not messenger.is_done]
        for messenger in self._messengers:
            if messenger.name == name:  # signals are a set, as in the kernel, and each messenger is a request
                messenger.repeat()
                return
        self._messengers.append(Messenger(self._engine, self.where, self.mark, name))

    def _read(self, data: bytes) -> None:
        """Send what came from stdin; its end is passed on where the protocol can."""
        execution = self._execution  # sending may find that the stream is lost
        if execution is None:
            return
        if not data:
            execution.close_stdin()
            return
        execution.send(data)
        if execution.is_behind:
            self.stdio.pause_reading()

    def _find(self, failure: Failure) -> None:
        """Ask for a command that may have started unheard: one that mpirun has heard of is not started again."""
        self._engine.gate.leave(self)
        self.state, self._failure = "finding", failure
        self._after(self._tries.left_s(self._engine.loop.now()), self._not_found)
        self._ask_worker()

    def _found(self) -> None:
        if self.state == "finding":
            self.state = "settling"
            self.times.acknowledged = self._engine.loop.now()
            self._started()

    def _not_found(self) -> None:
        assert self._failure is not None
        self._cancel()
        self._let_go()
        self._retry(self._failure)

    def _settle(self) -> None:
        if self._kept_code is not None:  # the stream that hung was to bring the rest
            self._cancel()
        self.state = "settling"
        self.stdio.stop_reading()
        self._ask_worker()

    def _ask_worker(self) -> None:
        from rshagent.session.settler import Settler  # noqa: PLC0415 (no launch that goes well pays for it)

        self._stop_asking()
        self._settler = Settler(self._engine, self.where, self.mark, self._pid, self._answered, self._found)

    def _stop_asking(self) -> None:
        if self._settler is not None:
            self._settler.close()
            self._settler = None

    def _answered(self, code: int | None, reason: str) -> None:
        """Take what the worker says of the command's end: its exit status, or why there is none to be had."""
        self._settler = None
        if code is not None:
            self._found()
            self._note_status(code)
        if self.state == "finding":
            self._not_found()
        elif self.state == "settling":
            if code is None and (self.times.acknowledged or self._pid is not None):
                self.cut = reason
            self._finish(decisions.settled(code, reason, has_output=self.has_output))
        elif code is not None:  # the stream hangs, or hung; the last of the output is on its way
            self._kept_code = code
            self._expect_more()
        elif self._execution is not None and self._execution.is_silent:
            self.cut = reason
            self._finish(decisions.settled(None, reason, has_output=self.has_output))

    def _expect_more(self) -> None:
        """Give a stream that hung, of a command whose end is known, time for more of its output."""
        if self._kept_code is not None and self.state == "acknowledged":
            self._after(_GRACE_S, self._finish_as_kept)

    def _finish_as_kept(self) -> None:
        assert self._kept_code is not None
        if self.stdio.is_behind:  # its reader is slow, and the stream waits for it
            self._expect_more()
            return
        if self._execution is not None and self._execution.is_confirmed:  # the last that the command says by it
            self._finish(Finish(self._kept_code))
        else:
            self._finish(decisions.settled(self._kept_code, "", has_output=self.has_output))

    def _check_worker(self) -> None:
        # The stream may be about to tell the same, and more exactly.
        if self._worker_end() is not None:
            self._engine.loop.call_later(_GRACE_S, self._check_worker_again)

    def _check_worker_again(self) -> None:
        ended = self._worker_end()
        if ended is None:
            return
        reason, code = ended
        self._note_worker_end()
        if self.state == "asked":  # the next worker of its name may be there already
            self._lose(reason)
        elif self.state == "finding":
            self._failure = Failure(reason, retryable=True)
            self._not_found()
        elif self.state in ("acknowledged", "settling"):
            self._finish(Finish(code, reason))
        elif self.state == "ending":
            self._end_now()

    def _worker_end(self) -> tuple[str, int] | None:
        """Say why the worker can't be running the command any more, and with which exit code; None if it may."""
        from agents.common.pods import why_ended  # noqa: PLC0415 (only where there is a watch; it imports typing)

        if self._baseline is None:
            self._baseline = self._pod()
        return None if self._baseline is None else why_ended(self._baseline, self._pod(), self.where.container)

    def _note_status(self, code: int) -> None:
        """Remember if the command was killed, by a signal that we had not sent yet."""
        sent = self._termination.sent if self._termination is not None else ()
        # A launcher whose output travels by the stream tells of a loss itself; if its agents die, all was killed.
        is_orphan = self._is_orphan and not sent and not self.has_output
        self.cut = self.cut or decisions.killed(code, (*self.ours, *sent), is_orphan=is_orphan)

    def _note_worker_end(self) -> None:
        """Remember if the worker has ended while the command ran: mpirun may kill its agents before they hear of it."""
        if self.times.acknowledged and not self.cut:
            ended = self._worker_end()
            self.cut = ended[0] if ended is not None else ""

    def _is_ready(self) -> bool:
        pod = self._pod()
        return not self._engine.is_watched(self.where.namespace) or (pod is not None and pod.ready)

    def _pod(self) -> Pod | None:
        if not self._engine.is_watched(self.where.namespace):
            return None
        assert self._engine.pods is not None
        return self._engine.pods.get(self.where.pod)

    def _terminate(self, grace_s: float) -> None:
        """End the session in the worker; its exit code is known."""
        from rshagent.session.termination import Termination  # noqa: PLC0415

        was_settling, self.state = self.state == "settling", "ending"
        self._engine.gate.leave(self)
        self._cancel()
        self._stop_asking()
        if was_settling and grace_s:  # no stream tells how it ends
            self._ask_worker()
        self._termination = Termination(
            self._engine,
            self.where,
            self.mark,
            decisions.ends_by(self._signal),
            grace_s,
            self._execution,
            is_acknowledged=bool(self.times.acknowledged),
            on_done=self._terminated,
        )

    def _terminated(self, reason: str) -> None:
        if reason:
            self.reason += f"; {reason}"
        self._end_now()

    def _finish(self, end: Finish) -> None:
        """Say why where it is our failure, then end as soon as all output is out."""
        if self.state in ("draining", "ended"):
            return
        self.code, self.reason = end.code, end.reason
        self._engine.gate.leave(self)
        self._cancel()
        self._let_go()
        if end.reason:
            self.stdio.say(f"rshagent: {self.where.pod}: {end.reason}")
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
            self._expect_more()  # which the stream may have held back

    def _broken(self) -> None:
        """Treat a stdout that nobody reads any more as ssh does: as the end of the client."""
        if self.state == "draining":
            self._drained()
        else:
            self.end(PIPE, 0)

    def _let_go(self) -> None:
        """Let go of what still runs for this launch, but not of its output."""
        if self._execution is not None:
            self._execution.close()
            self._execution = None
        self._stop_asking()

    def _end_now(self) -> None:
        if self.state == "ended":
            return
        if self.state == "ending":
            self._note_worker_end()
        if self.code == 0 and self.stdio.is_broken:  # which we may hear of after the command's end
            told = decisions.told_to_end(PIPE)
            self.code, self.reason = told.code, told.reason
        self.state = "ended"
        self.times.ended = self._engine.loop.now()
        self._cancel()
        for part in (self._execution, self._settler, self._termination, *self._messengers):
            if part is not None:
                part.close()
        self._execution = self._settler = self._termination = None  # which know us: no circles are left
        self.stdio.close()
        self._engine.end_cleanup(self, self.where.pod)
        self._engine.leave(self)
        peers = self._engine.launches.get(self.where.pod)
        if peers is not None:
            peers.discard(self)
            if not peers:
                del self._engine.launches[self.where.pod]
        self._engine.gate.leave(self)
        self._on_end(self)

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call `call()` then, and nothing that was to be called before. A method: the hub abandons whose call fails."""
        self._cancel()
        self._timer = self._engine.loop.call_later(seconds, call)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
