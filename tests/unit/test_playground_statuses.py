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


def test_a_program_that_is_not_there_by_runtime() -> None:
    start = "exec failed: unable to start container process: "
    missing = 'exec: "x": executable file not found in $PATH'
    text = (
        'error executing command in container: failed to exec in container: failed to start exec "4f": '
        f"OCI runtime exec failed: {start}{missing}: unknown"
    )
    containerd = statuses.not_started(["x"], errno.ENOENT, "4f", "containerd")
    assert containerd.status["message"] == f"Internal error occurred: Internal error occurred: {text}"
    assert (containerd.status["reason"], containerd.status["code"], containerd.text) == ("InternalError", 500, "")

    def code_of(refusal: statuses.Refusal) -> str:
        return str(refusal.status["details"]["causes"][0]["message"])

    docker = statuses.not_started(["x"], errno.ENOENT, "4f", "docker")
    assert (docker.channel, docker.text) == (1, f"OCI runtime exec failed: {start}{missing}: unknown\r\n")
    assert code_of(docker) == "127"
    assert code_of(statuses.not_started(["x"], errno.EACCES, "4f", "docker")) == "126"
    crio = statuses.not_started(["x"], errno.ENOENT, "4f", "cri-o")
    assert (crio.channel, code_of(crio)) == (2, "255")
    assert '\\"x\\": executable file not found' in crio.text
