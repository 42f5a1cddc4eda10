"""What the API server's answers mean: tables of real ones, and any others without a crash."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.common.text import LINE_MAX, one_line, printable
from rshagent.stream import status
from rshagent.stream.status import AGENT_FAILED, NO_SHELL, Exited, Failure


def exit_status(message: object, *, text: str = "command terminated with non-zero exit code", **details: Any) -> bytes:
    causes = details.get("causes", [{"reason": "ExitCode", "message": message}])
    body = {"status": "Failure", "reason": "NonZeroExitCode", "message": text, "details": {"causes": causes}}
    return json.dumps({"metadata": {}, **body}).encode()


# As containerd and CRI-O have the kubelet say it.
NO_SHELL_TEXT = (
    'OCI runtime exec failed: exec failed: unable to start container process: exec: "/bin/sh": '
    "stat /bin/sh: no such file or directory: unknown"
)

EXITED = [
    (b'{"metadata":{},"status":"Success"}', 0),
    (b'{"metadata":{},"status":"Success"}\n', 0),
    (b'{"status": "Success", "kind": "Status", "apiVersion": "v1", "metadata": {}}', 0),
    (exit_status("1"), 1),
    (exit_status("255"), 255),
    (exit_status("137"), 137),
    (exit_status(3), 3),
    (exit_status("", causes=[{"reason": "Other"}, {"reason": "ExitCode", "message": "5"}]), 5),
    (exit_status("127", text="sh: nonsense: command not found"), 127),
    # No failure may become a success.
    (exit_status("0"), 255),
    (exit_status("256"), 255),
    (exit_status("-1"), 255),
]


@pytest.mark.parametrize(("data", "code"), EXITED)
def test_a_command_that_ended(data: bytes, code: int) -> None:
    outcome = status.from_error_channel(data)
    assert isinstance(outcome, Exited)
    assert outcome.code == code


FAILED: list[tuple[bytes, bool, int, str]] = [
    # what came, retryable, exit code, words of the message
    (b"", False, 255, "empty status"),
    (b"error executing remote command: EOF\n", False, 255, "error executing remote command: EOF"),
    (b"[1, 2]", False, 255, "can't be read"),
    (b'{"status": "Failure"}', True, 255, "without a message"),
    (b'{"status": "Failure", "message": "error dialing backend: EOF", "code": 500}', True, 255, "dialing backend"),
    (b'{"status": "Failure", "message": null, "details": {"causes": "x"}}', True, 255, "without a message"),
    (exit_status("many"), True, 255, "non-zero exit code"),
    (exit_status("9" * 5000), True, 255, "non-zero exit code"),
    (exit_status("128", text=NO_SHELL_TEXT), False, NO_SHELL, "has no /bin/sh"),
    (exit_status("126", text=NO_SHELL_TEXT), False, NO_SHELL, "has no /bin/sh"),
    (json.dumps({"status": "Failure", "message": NO_SHELL_TEXT}).encode(), False, NO_SHELL, "has no /bin/sh"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "retryable", "code", "words"), FAILED)
def test_a_failure_that_is_not_the_commands(data: bytes, retryable: bool, code: int, words: str) -> None:
    outcome = status.from_error_channel(data)
    assert isinstance(outcome, Failure)
    assert (outcome.retryable, outcome.exit_code) == (retryable, code)
    assert words in outcome.message


def test_a_missing_container_is_waited_for_no_longer_than_one_that_restarts() -> None:
    outcome = status.from_error_channel(b'{"status": "Failure", "message": "container not found (\\"main\\")"}')
    assert isinstance(outcome, Failure)
    assert (outcome.retryable, outcome.patience_s) == (True, 30.0)


def test_the_commands_own_words_are_cut_out_of_the_message() -> None:
    text = "error executing command [/bin/sh -c BOOT sh SECRET=[x] run]: EOF"
    outcome = status.from_error_channel(json.dumps({"status": "Failure", "message": text}).encode())
    assert isinstance(outcome, Failure)
    assert outcome.message == "error executing command […]: EOF"
    cut_off = status.from_error_channel(b'{"status": "Failure", "message": "error executing [/bin/sh -c SECRET"}')
    assert isinstance(cut_off, Failure)
    assert "SECRET" not in cut_off.message


HTTP: list[tuple[int, bytes, str | None, tuple[bool, float | None, float | None]]] = [
    # status, body, Retry-After → retryable, the server's wish, patience
    (400, b"", None, (False, None, None)),
    (401, b"", None, (True, None, 3.0)),
    (401, b"", "30", (True, None, 3.0)),
    (403, b"", None, (True, None, 5.0)),
    (403, b"", "30", (True, None, 5.0)),
    (404, b'{"message": "pods \\"worker-0\\" not found"}', None, (True, None, 30.0)),
    (405, b"", None, (False, None, None)),
    (408, b"", None, (True, None, None)),
    (409, b"", None, (True, None, None)),
    (429, b"slow down", "7", (True, 7.0, None)),
    (429, b"", "0", (True, 0.0, None)),
    (500, b"", "Wed, 21 Oct 2026 07:28:00 GMT", (True, None, None)),
    (503, b"<html>", "86400", (True, 60.0, None)),
    (503, b"", "9" * 5000, (True, 60.0, None)),
    (503, b"", "\N{SUPERSCRIPT TWO}", (True, None, None)),
    (302, b"", None, (False, None, None)),
]


@pytest.mark.parametrize(("code", "body", "retry_after", "expected"), HTTP)
def test_http_refusals(
    code: int, body: bytes, retry_after: str | None, expected: tuple[bool, float | None, float | None]
) -> None:
    failure = status.from_http(code, body, retry_after, what="exec in worker-3")
    assert (failure.retryable, failure.retry_after_s, failure.patience_s) == expected
    assert (failure.http_status, failure.exit_code) == (code, AGENT_FAILED)
    assert failure.message.startswith("exec in worker-3")


def test_a_kubelet_that_knows_no_pods_yet_does_not_mean_that_the_pod_is_gone() -> None:
    failure = status.from_http(404, b"pod does not exist", None, what="exec")
    assert (failure.retryable, failure.http_status, failure.patience_s) == (True, 503, None)


def test_a_403_prints_the_body_the_verb_and_the_rule() -> None:
    said = 'pods "worker-0" is forbidden: User "x" cannot create resource "pods/exec" in API group ""'
    message = status.from_http(403, json.dumps({"message": said}).encode(), None, what="exec").message
    assert said in message
    assert "The verb create is missing" in message
    assert 'resources: ["pods/exec"], verbs: ["get", "create"]' in message


def test_a_403_after_a_403_names_both_verbs() -> None:
    said = 'pods "worker-0" is forbidden: User "x" cannot create resource "pods/exec" in API group ""'
    body = json.dumps({"message": said}).encode()
    message = status.from_http(403, body, None, what="exec", is_second=True).message
    assert said in message
    assert "The verbs get and create are both missing (create alone suffices, by SPDY)" in message
    assert "\n" not in message


def test_a_policys_403_after_a_403_is_not_about_verbs() -> None:
    said = 'admission webhook "no-exec.example" denied the request: users cannot create shells'
    message = status.from_http(403, json.dumps({"message": said}).encode(), None, what="exec", is_second=True).message
    assert said in message
    assert "missing" not in message.partition(said)[2]


FORBIDDEN = 'pods "w-0" is forbidden: User "x" cannot %s resource "%s" in API group "" in the namespace "n"'


@pytest.mark.parametrize(
    ("code", "said", "expected"),
    [
        (403, FORBIDDEN % ("get", "pods/exec"), True),
        (403, FORBIDDEN % ("create", "pods/exec"), False),
        (403, FORBIDDEN % ("get", "pods"), False),
        (403, "no", False),
        (400, "Upgrade request required", True),
        (400, "unable to upgrade: missing upgrade headers in request", True),
        (400, "a container name must be specified for pod w-0, choose one of: [a b]", False),
        (405, "", True),
        (426, "", True),
        (501, "", True),
        (401, "", False),
        (404, 'pods "w-0" not found', False),
        (500, "", False),
    ],
)
def test_which_refusals_are_of_the_websocket_and_not_of_the_exec(code: int, said: str, expected: bool) -> None:
    body = json.dumps({"kind": "Status", "message": said, "code": code}).encode()
    assert status.is_about_websocket(code, body) == expected


def test_a_403_of_something_else_has_the_rule_too() -> None:
    message = status.from_http(403, b"<h1>Forbidden by proxy</h1>", None, what="exec").message
    assert "Forbidden by proxy" in message
    assert "A Role rule that grants it" in message


def test_a_400_that_wants_a_choice_of_container() -> None:
    said = "a container name must be specified for pod worker-0, choose one of: [main side-car] or one of: [init]"
    failure = status.from_http(400, json.dumps({"message": said}).encode(), None, what="exec")
    assert failure.containers == ("main", "side-car")
    assert status.from_http(400, b'{"message": "choose one of: [main"}', None, what="exec").containers == ()
    assert status.from_http(404, json.dumps({"message": said}).encode(), None, what="exec").containers == ()


KEYS = st.sampled_from(["status", "message", "details", "causes", "reason", "code", "metadata"]) | st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_status_is_an_exit_or_a_failure_in_one_printable_line(data: bytes) -> None:
    outcome = status.from_error_channel(data)
    if isinstance(outcome, Exited):
        assert 0 <= outcome.code <= 255
    else:
        assert outcome.message.isprintable()
        assert 0 < outcome.exit_code <= 255


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5000, b'"\\ud800"'])
def test_hostile_json_is_a_failure(data: bytes) -> None:
    assert isinstance(status.from_error_channel(data), Failure)
    assert status.from_http(500, data, None, what="exec").retryable


@given(st.integers(100, 599), st.binary(max_size=200), st.none() | st.text(max_size=10))
def test_any_refusal_is_a_failure_in_one_printable_line(code: int, body: bytes, retry_after: str | None) -> None:
    failure = status.from_http(code, body, retry_after, what="exec")
    assert failure.message.isprintable()
    assert failure.retry_after_s is None or 0 <= failure.retry_after_s <= 60


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"  two\r\n lines\t ", "two lines"),
        ("\x1b[31mred\x07", "?[31mred?"),
        (b"\xff\xfe", "\N{REPLACEMENT CHARACTER}" * 2),
        ("x" * 400, "x" * 400),
        ("x" * 401, "x" * 399 + "…"),
    ],
)
def test_one_line(text: bytes | str, line: str) -> None:
    assert one_line(text) == line


@pytest.mark.parametrize("text", [
    "a\nb\r\x85\u2028c", "\x1b[31m\u202e\x00\x9b", "\udcff" * (1 << 20), "é" * 2000, "x" * 1024, " \n" * (1 << 20), "",
])  # fmt: skip
def test_what_came_from_outside_is_one_short_printable_line(text: str) -> None:
    line = printable(text)
    assert line == "" or line.isprintable()
    assert len(line.encode()) <= LINE_MAX
    assert printable(line) == line
    assert len(printable(text, 100).encode()) <= 100
