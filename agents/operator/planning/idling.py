"""Idle workers, whose main process only waits: without processes of the launcher, they need no grace period.

Linux gives process 1 of a container no SIGTERM that it has no handler for: `sleep infinity` keeps its pod, with its
GPUs and its quota, for the whole grace period. What counts as waiting is read from the template, and in doubt a pod
keeps its own period:

| command and args | |
|---|---|
| `sleep` with durations, `tail -f /dev/null` | waits |
| `sh -c TEXT` (bash, dash, ash, ksh, zsh), whose last command waits, behind `;`, `&&` or a new line | waits |
| the same with `exec` before it, or with `& wait` behind it | waits |
| an endless loop that does nothing but wait, or print text | waits |
| a text with `trap`, `.`, `source`, `eval`, a here-document, or with anything else in the background | does not |
| a text of more than 32 KiB | does not |
| another program or script, or none: then it is the image's, or our own, which ends on SIGTERM | does not |

A preStop hook, a stopSignal or another container of the user's keeps the period, too. Only jobs with transport exec
have such workers: an sshd ends on SIGTERM. In debug mode anything may run in them.
"""

from __future__ import annotations

import os.path
import re
import shlex
from collections.abc import Sequence

from agents.job.json_object import Object, mappings, part
from agents.job.model import Transport
from agents.operator import objects
from agents.operator.objects import names
from agents.operator.planning.pods import PodView
from agents.operator.planning.view import View

Command = tuple[list[str], str]  # words, and the operator behind them

GRACE_S = 2  # the least that the kubelet gives a container; 0 would not wait for the container's end at all

_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)[smhd]?|inf(inity)?", re.ASCII | re.IGNORECASE)
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
_FOLLOWS = frozenset({"-f", "-F", "--follow", "-fn0", "-0f"})
_UNKNOWN = re.compile(r"\b(trap|source|eval)\b|<<")  # what may have the shell do something on SIGTERM, or misread here
_TEXT_MAX = 32_768  # characters; of a word the time grows with the square of its length: 13 s for a megabyte
_COMMENT = re.compile(r"(^|(?<=\s))#.*", re.MULTILINE)
_OPERATOR = re.compile(r"&&|\|\||[<>]&|&>|[;&|()<>\n]")
_PUNCTUATION = ";&|()<>\n"
_ENDS = frozenset({"", ";", "\n"})
_ENDLESS = [one.split() for one in ("while true", "while :", "while [ 1 ]", "while [ true ]", "until false")]
_ACTS = re.compile(r"[<>`]|\$\(")  # a redirection, another command
_QUIET = frozenset({"", ":", "true", "wait", "echo", "printf", "date"})


def are_idle(view: View, pods: Sequence[PodView]) -> bool:
    """Whether all of these workers that have not ended only wait, longer than they should be kept for that."""
    alive = [pod for pod in pods if not pod.is_over]
    if not alive or view.job.transport is not Transport.EXEC or view.job.debug is not None:
        return False
    roles = (view.job.worker, *(() if view.unresumed is None else (view.unresumed.worker,)))
    waiting = {objects.template_hash(role) for role in roles if is_idle(role.template)}
    return bool(waiting) and all(_is_idle_pod(pod, waiting) for pod in alive)


def is_ending(view: View, pod: PodView) -> bool:
    """Whether a launcher's pod, and its hub with it, will have ended in a moment, if it is deleted where it runs."""
    runs_on = any(one.state == "running" and not one.init for one in pod.state.containers)
    end = view.launcher_end(pod)
    return not pod.is_over and not _never_began(pod) and (pod.is_going or end is None or not runs_on)


def is_launcher_gone(view: View) -> bool:
    """Whether no launcher runs, and the hub of the last one has ended what it had started in the workers."""
    left = [pod for pod in view.launchers if not _never_began(pod)]
    hub = left[-1].hub if left else None
    return all(pod.is_over for pod in left) and (hub is None or (hub.state == "terminated" and hub.exit_code == 0))


def _never_began(pod: PodView) -> bool:
    return pod.is_going and pod.phase == "Pending"


def _is_idle_pod(pod: PodView, waiting: set[str]) -> bool:
    """Whether a pod is as one of these templates says: no webhook has added a container."""
    spec = part(pod.raw, "spec")
    sidecars = [one for one in mappings(spec.get("initContainers")) if one.get("restartPolicy") == "Always"]
    are_ours = all(str(one.get("name")).startswith(names.WORKER_AGENT) for one in sidecars)
    has_begun = pod.phase == "Running" or not spec.get("initContainers")  # until then an init container is the main one
    is_alone = are_ours and len(mappings(spec.get("containers"))) == 1
    return is_alone and has_begun and str(pod.annotations.get(names.TEMPLATE)) in waiting


def is_idle(template: Object) -> bool:
    """Whether a template's pods have nothing to do when they are deleted, and a longer grace period than that takes."""
    spec = part(template, "spec")
    containers, before = mappings(spec.get("containers")), mappings(spec.get("initContainers"))
    grace = spec.get("terminationGracePeriodSeconds")
    if len(containers) != 1 or any(one.get("restartPolicy") == "Always" for one in before):
        return False
    if isinstance(grace, int) and grace <= GRACE_S:
        return False
    (container,) = containers
    if part(container, "lifecycle").keys() & {"preStop", "stopSignal"} or not container.get("command"):
        return False
    return _waits([*container["command"], *container.get("args", [])])


def _waits(words: Sequence[str]) -> bool:
    """Whether a program with its arguments does nothing but wait."""
    program, *rest = words[1:] if words[:1] == ["exec"] and words[1:] else words
    name = os.path.basename(program)
    if name == "sleep":
        return bool(rest) and all(map(_DURATION.fullmatch, rest))
    if name == "tail":
        others = [one for one in rest if not one.startswith("-") and not one.isdigit()]
        return others == ["/dev/null"] and bool(_FOLLOWS & {*rest})
    return name in _SHELLS and _text_waits(_shell_text(rest))


def _shell_text(arguments: Sequence[str]) -> str:
    """Return what a shell is given by -c; "" if it runs something else."""
    rest, is_text = list(arguments), False
    while rest and rest[0].startswith(("-", "+")):
        option = rest.pop(0)
        if option in {"-", "--"}:
            break
        if not option.startswith("--"):
            is_text |= "c" in option
            if option[-1] in "oO":  # with a name: -o pipefail
                del rest[:1]
    return rest[0] if is_text and rest else ""


def _text_waits(text: str) -> bool:
    """Whether a shell comes to wait in the last command of this text, with nothing that would answer a SIGTERM."""
    try:
        commands = [] if len(text) > _TEXT_MAX or _UNKNOWN.search(text) else _commands(text)
    except ValueError:  # an open quote
        return False
    if not commands or commands[-1][1] not in _ENDS:
        return False
    *before, (last, _) = commands
    if any(words[:1] in (["."], ["exec"]) or (then == "&" and not _waits(_core(words))) for words, then in before):
        return False
    follows = before[-1][1] if before else ";"
    if last == ["done"]:
        return _loops_idly(before)
    if last[0] == "wait":
        return follows == "&"
    return follows in {*_ENDS, "&&", "&"} and _waits(last)


def _commands(text: str) -> list[Command]:
    """Return a shell text's simple commands. Raises ValueError."""
    lexer = shlex.shlex(_COMMENT.sub("", text.replace("\\\n", " ")), posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    found: list[Command] = []
    words: list[str] = []
    for token in lexer:
        is_operator = bool(token) and {*token} <= {*_PUNCTUATION}
        for one in _OPERATOR.findall(token) if is_operator else [token]:
            if not is_operator or one[0] in "<>" or one == "&>":  # of a redirection the command is what counts
                words.append(one)
            elif words or one in "()":
                found.append((words, one))
                words = []
    return [*found, (words, "")] if words else found


def _core(words: list[str]) -> list[str]:
    core = words[1:] if words[:1] in (["do"], ["while"], ["until"]) else words
    return core or [""]


def _loops_idly(before: list[Command]) -> bool:
    """Whether the loop that ends here has no end, and nothing to do."""
    for words, _ in reversed(before):
        core = _core(words)
        waits = _waits(core)
        if words[:1] in (["while"], ["until"]):
            return words in _ENDLESS or (waits and words[0] == "while")
        if not (waits or (core[0] in _QUIET and not _ACTS.search(" ".join(core)))):
            return False
    return False
