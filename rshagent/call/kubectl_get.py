"""`kubectl get pods` of the job's own workers: what is asked for, and the shell text that prints the answer. Pure.

The columns are kubectl's (printers/internalversion/printers.go, printPod), from what the hub's watch keeps of a pod:
so there is no -o json. The client prints, as the hub must not wait for a client's stdout.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from agents.common.pods import ContainerState, Pod
from agents.common.text import shown
from rshagent.call.discovery import ordinal

OUTPUTS = ("", "wide", "name")
_RESOURCES = ("pods", "pod", "po")
_FIELDS = ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase")
_COLUMNS = ("NAME", "READY", "STATUS", "RESTARTS", "AGE")
_WIDE = ("IP", "NODE", "NOMINATED NODE", "READINESS GATES")
_TEXT_MAX = 120_000  # Linux takes 128 KiB in one argument, which is what a shell's text is
_OPTION_MAX = 4096  # of a selector: each of its parts becomes objects
_UNKNOWN = "<unknown>"


class Unsupported(Exception):  # noqa: N818  # not an error: the call is for the real kubectl
    """What of a query only the real kubectl knows."""


class Query:
    """A query: which pods to show, and how."""

    def __init__(self, namespace: str | None) -> None:
        self.namespace = namespace
        self.names: list[str] = []
        self.labels: list[tuple[str, str, str | None]] = []
        self.fields: list[tuple[str, str, str | None]] = []
        self.output = ""
        self.shows_head = True
        self.may_be_missing = False

    def take_words(self, words: list[str]) -> None:
        """Take what is asked for: `pods`, `pod NAME…` or `pod/NAME…`. Raises Unsupported."""
        if not words:
            raise Unsupported("without a resource")
        if words[0] in _RESOURCES:
            self.names = words[1:]
        else:
            for word in words:
                resource, slash, name = word.partition("/")
                if resource not in _RESOURCES or not slash:
                    raise Unsupported(shown(word.encode("utf-8", "surrogateescape")))
                self.names.append(name)

    def take_option(self, name: bytes, value: str) -> None:
        """Take an option's value. Raises Unsupported."""
        is_known = True
        if len(value) > _OPTION_MAX:
            raise Unsupported(f"{shown(b'--' + name)} with more than {_OPTION_MAX} characters")
        if name == b"output":
            self.output, is_known = value, value in OUTPUTS
        elif name == b"selector":
            self.labels, is_known = _requirements(value), not set(value) & set("() ")
        elif name == b"field-selector":
            self.fields = _requirements(value)
            is_known = all(key in _FIELDS and wanted is not None for key, _, wanted in self.fields)
        if not is_known:
            raise Unsupported(shown(b"--" + name + b"=" + value.encode("utf-8", "surrogateescape")))

    def answer(self, pods: Iterable[Pod], namespace: str, now: float) -> bytes:
        """Return the shell text that prints these of the job's workers, which are all the pods that it shows."""
        if self.namespace not in (None, namespace):
            return failure(f"namespace {self.namespace!a} is not this job's, which is {namespace!a}")
        there = {pod.name: pod for pod in pods}
        missing = [name for name in self.names if name not in there]
        found = [there[name] for name in self.names or sorted(there, key=ordinal) if name in there]
        found = [pod for pod in found if self._wants(pod, namespace)]
        if self.output == "name":
            text = _printed("pod/%s\n", ((pod.name,) for pod in found))
        else:
            text = _table(found, now, is_wide=self.output == "wide", shows_head=self.shows_head)
            if not found and not missing and not self.may_be_missing:
                text = _said(f"No resources found in {namespace} namespace.")
        if missing and not self.may_be_missing:
            said = b"".join(_said(f'Error from server (NotFound): pods "{_plain(name)}" not found') for name in missing)
            text += said + b"exit 1"
        if len(text) > _TEXT_MAX:
            what = f"{len(found)} workers are too many for one answer: name some, or use -o name"
            return failure(what if found else f"{len(missing)} names are too many for one answer")
        return text or b":"

    def _wants(self, pod: Pod, namespace: str) -> bool:
        fields = dict(zip(_FIELDS, (pod.name, namespace, pod.node, pod.phase), strict=True))
        return _meets(self.labels, dict(pod.labels)) and _meets(self.fields, fields)


def failure(text: str) -> bytes:
    """Return the shell text of a failure: a line of ours, and kubectl's exit code."""
    return _said(f"rshagent: {_plain(text)}") + b"exit 1"


def _requirements(text: str) -> list[tuple[str, str, str | None]]:
    """Read `a=b,c!=d,e,!f`: key, operator and value."""
    found: list[tuple[str, str, str | None]] = []
    for part in text.split(",") if text else []:
        key, operator, value = part.partition("!=")
        if not operator:
            key, operator, value = part.partition("=")
            value = value.removeprefix("=")
        if not operator:
            found.append((key.removeprefix("!"), "!=" if key.startswith("!") else "=", None))
        else:
            found.append((key, operator, value))
    return found


def _meets(requirements: list[tuple[str, str, str | None]], values: dict[str, str]) -> bool:
    for key, operator, value in requirements:
        is_met = key in values if value is None else values.get(key) == value
        if is_met != (operator == "="):
            return False
    return True


def _table(pods: list[Pod], now: float, *, is_wide: bool, shows_head: bool) -> bytes:
    rows = [_row(pod, now) + (_place(pod) if is_wide else ()) for pod in pods]
    if rows and shows_head:
        rows.insert(0, _COLUMNS + (_WIDE if is_wide else ()))
    if not rows:
        return b""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = "".join(f"%-{width}s   " for width in widths[:-1])
    return _printed(f"{form}%s\n", rows)


def _row(pod: Pod, now: float) -> tuple[str, ...]:
    lasting = [one for one in pod.containers if not one.init or one.sidecar]
    ready = sum(one.ready and one.state == "running" for one in lasting)
    restarts = sum(one.restarts for one in lasting)
    size = max(pod.size, len(lasting))
    return pod.name, f"{ready}/{size}", _plain(status_of(pod)) or _UNKNOWN, str(restarts), age(pod.created, now)


def _place(pod: Pod) -> tuple[str, ...]:
    return (*(_plain(one) or "<none>" for one in ((pod.ips or ("",))[0], pod.node)), "<none>", "<none>")


def status_of(pod: Pod) -> str:
    """Return the column STATUS."""
    if pod.deleting:
        return "Unknown" if pod.reason == "NodeLost" else "Terminating"
    status = pod.reason or pod.phase
    if pod.unscheduled_reason == "SchedulingGated":
        status = pod.unscheduled_reason
    inits = [one for one in pod.containers if one.init]
    for index, one in enumerate(inits):
        if not (one.state == "terminated" and one.exit_code == 0) and not (one.sidecar and one.state == "running"):
            waits = one.state != "terminated" and one.reason in ("", "PodInitializing")
            return f"Init:{index}/{len(inits)}" if waits else f"Init:{_reason(one)}"
    others = [one for one in pod.containers if not one.init]
    for one in reversed(others):
        status = _reason(one) or status
    if status == "Completed" and any(one.ready and one.state == "running" for one in others):
        status = "Running" if pod.ready else "NotReady"
    return status


def _reason(container: ContainerState) -> str:
    if container.state == "terminated":
        return container.reason or f"ExitCode:{container.exit_code}"
    return container.reason


def age(created: str, now: float) -> str:
    """Return a time since then as kubectl shows it (apimachinery, util/duration); of a time such as in a pod."""
    try:
        seconds = max(int(now) - int(datetime.fromisoformat(created).timestamp()), 0)
    except ValueError:
        return _UNKNOWN
    for below, unit, name, smaller, smallest in (
        (120, 1, "s", 0, ""), (600, 60, "m", 1, "s"), (10800, 60, "m", 0, ""), (28800, 3600, "h", 60, "m"),
        (172800, 3600, "h", 0, ""), (691200, 86400, "d", 3600, "h"),
    ):  # fmt: skip
        if seconds < below:
            rest = seconds % unit // smaller if smaller else 0
            return f"{seconds // unit}{name}" + (f"{rest}{smallest}" if rest else "")
    return f"{seconds // 86400}d"


def _printed(form: str, rows: Iterable[tuple[str, ...]]) -> bytes:
    words = " ".join(_word(word) for row in rows for word in row)
    return f"printf {_word(form.replace(chr(10), chr(92) + 'n'))} {words}\n".encode() if words else b""


def _said(line: str) -> bytes:
    return f"printf '%s\\n' {_word(line)} >&2\n".encode()


def _word(text: str) -> str:
    """Quote for a shell, where there is something to quote: the text must be short."""
    if text.replace("-", "").replace(".", "").replace("/", "").isalnum() and text.isascii():
        return text
    return "'" + text.replace("'", "'\\''") + "'"


def _plain(text: str) -> str:
    """Return a text fit for a terminal: whoever can write a pod's status can put anything into it."""
    return "".join(one if " " <= one <= "~" else "?" for one in text)
