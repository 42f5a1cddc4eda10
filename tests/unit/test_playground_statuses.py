"""The words of API server, kubelet and runtime, written down by hand from the real ones."""

from __future__ import annotations

import errno

import pytest

from agents.playground import statuses


def test_exit_codes() -> None:
    assert statuses.success() == {"metadata": {}, "status": "Success"}
    assert statuses.exit_code(137) == {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: command terminated with exit code 137",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "137"}]},
    }


def test_forbidden() -> None:
    status = statuses.forbidden("system:serviceaccount:ns:sa", "get", "pods/exec", "x", "ns")
    assert status["message"] == (
        'pods "x" is forbidden: User "system:serviceaccount:ns:sa" cannot get resource "pods/exec" in API group "" '
        'in the namespace "ns"'
    )
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    unnamed = statuses.forbidden("u", "list", "pods", "", "ns")
    assert unnamed["message"].startswith('pods is forbidden: User "u" cannot list resource "pods"')


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("x", errno.ENOENT, 'exec: "x": executable file not found in $PATH'),
        ("/bin/x", errno.ENOENT, 'exec: "/bin/x": stat /bin/x: no such file or directory'),
        ("/etc/passwd", errno.EACCES, 'exec: "/etc/passwd": permission denied'),
        ("/tmp", errno.EISDIR, 'exec: "/tmp": is a directory'),
        ("/x", errno.ENOEXEC, "exec /x: exec format error"),
        ("/x", errno.E2BIG, "exec /x: argument list too long"),
    ],
)
def test_what_the_runtime_says(name: str, error: int, words: str) -> None:
    assert statuses.runtime_error(name, error) == words


def test_a_program_that_is_not_there() -> None:
    text = (
        'error executing command in container: failed to exec in container: failed to start exec "4f": '
        "OCI runtime exec failed: exec failed: unable to start container process: "
        'exec: "x": executable file not found in $PATH: unknown'
    )
    status = statuses.not_started(["x"], errno.ENOENT, "4f")
    assert status["message"] == f"Internal error occurred: Internal error occurred: {text}"
    assert (status["reason"], status["code"]) == ("InternalError", 500)
