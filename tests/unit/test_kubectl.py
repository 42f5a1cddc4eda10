"""Calls of `kubectl exec`, as operators' scripts and people make them → what is run where."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rshagent.call.arguments import parse
from rshagent.call.parsed import Call, UsageError

if TYPE_CHECKING:
    from pathlib import Path

TEXT = 'orted -mca ess "env"  $HOME ; exit 3'


def call(*words: str | bytes, program: str = "/opt/kube/kubectl") -> Call:
    return parse([os.fsencode(word) for word in (program, *words)])


def where(words: str) -> tuple[str, str | None, str | None, bool, str]:
    """Return pod, namespace, container, whether stdin is read, and TEXT of words parted by blanks."""
    found = call(*words.split())
    return found.host, found.namespace, found.container, found.wants_stdin, found.text.decode()


@pytest.mark.parametrize(
    "words",
    [
        ["exec", "w-0", "--", "/bin/sh", "-c", TEXT],  # kubeflow's kubexec.sh
        ["exec", "w-0", "--container", "main", "--", "/bin/sh", "-c", TEXT],  # … with a main container
        ["exec", "--container=main", "w-0", "--", "/bin/sh", "-c", TEXT],
        ["exec", "pod/w-0", "-c", "main", "--", "sh", "-c", TEXT],
        ["exec", "w-0", "/bin/sh", "-c", TEXT],  # as it was before kubectl 1.18
    ],
)
def test_a_shells_text_is_not_touched(words: list[str]) -> None:
    found = call(*words)
    assert (found.host, found.text.decode()) == ("w-0", TEXT)
    assert not found.wants_stdin
    assert found.container == ("main" if any("main" in word for word in words) else None)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("exec w-0 -- true", ("w-0", None, None, False, "exec 'true'")),
        ("exec -i w-0 -- cat", ("w-0", None, None, True, "exec 'cat'")),
        ("exec w-0 -i -- cat", ("w-0", None, None, True, "exec 'cat'")),
        ("exec --stdin w-0 -- cat", ("w-0", None, None, True, "exec 'cat'")),
        ("exec --stdin=false -i=true w-0 -- cat", ("w-0", None, None, True, "exec 'cat'")),
        ("exec -i --stdin=false w-0 -- cat", ("w-0", None, None, False, "exec 'cat'")),
        ("exec -it w-0 -- cat", ("w-0", None, None, True, "exec 'cat'")),
        ("exec -tic main w-0 -- cat", ("w-0", None, "main", True, "exec 'cat'")),
        ("exec -itcmain w-0 -- cat", ("w-0", None, "main", True, "exec 'cat'")),
        ("exec -i -t -n team -c main w-0 -- cat -n", ("w-0", "team", "main", True, "exec 'cat' '-n'")),
        ("exec w-0 -nteam -c=main -- cat", ("w-0", "team", "main", False, "exec 'cat'")),
        ("exec w-0 --namespace=team --container=main -- a", ("w-0", "team", "main", False, "exec 'a'")),
        ("-n team exec w-0 -- a", ("w-0", "team", None, False, "exec 'a'")),
        ("--namespace team --request-timeout 0 -v 6 exec w-0 -- a", ("w-0", "team", None, False, "exec 'a'")),
        ("-v=6 exec -q --quiet=true --pod-running-timeout=1m w-0 -- a", ("w-0", None, None, False, "exec 'a'")),
        ("exec pods/w-0 -- a -- b -c d", ("w-0", None, None, False, "exec 'a' '--' 'b' '-c' 'd'")),
        ("exec po/w-0.job.team.svc -- a", ("w-0.job.team.svc", None, None, False, "exec 'a'")),
        ("exec w-0 ls -l", ("w-0", None, None, False, "exec 'ls' '-l'")),
        ("exec w-0 -- /bin/sh -c a b", ("w-0", None, None, False, "exec '/bin/sh' '-c' 'a' 'b'")),
        ("exec w-0 -- /bin/bash -c a", ("w-0", None, None, False, "exec '/bin/bash' '-c' 'a'")),
        ("exec w-0 -- -c", ("w-0", None, None, False, "exec '-c'")),
    ],
)
def test_options_pod_and_command(words: str, expected: tuple[str, str | None, str | None, bool, str]) -> None:
    assert where(words) == expected


@given(st.lists(st.binary(max_size=12).filter(lambda word: b"\0" not in word), max_size=5))
def test_the_words_of_a_command_arrive_whole(words: list[bytes]) -> None:
    text = call("exec", "w-0", "--", "printf", "%s.", *words).text
    done = subprocess.run([b"/bin/sh", b"-c", text], capture_output=True, check=True, timeout=30)
    assert done.stdout == b"".join(word + b"." for word in words or [b""])


def test_what_has_no_effect_is_told() -> None:
    found = call("-v", "6", "exec", "-it", "-q", "--request-timeout=1s", "-c", "main", "w-0", "--", "a")
    assert found.ignored == ["-v", "6", "-it", "-q", "--request-timeout=1s"]
    assert found.wants_terminal
    assert not call("exec", "-i", "--tty=false", "w-0", "--", "a").wants_terminal


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("exec", "no pod given"),
        ("exec -- w-0 true", "no pod given"),
        ("exec pod/ -- a", "no pod given"),
        ("exec w-0", "no command given for pod 'w-0'"),
        ("exec w-0 --", "no command given for pod 'w-0'"),
        ("exec w-0 -c", "option '-c' needs a value"),
        ("exec -n", "option '-n' needs a value"),
        ("exec --container", "option '--container' needs a value"),
        ("exec --container= w-0 -- a", "option '--container=' needs a value"),
        ("exec --stdin=maybe w-0 -- a", "'--stdin=maybe' is neither true nor false"),
    ],
)
def test_half_a_call_is_a_usage_error(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        call(*words.split())


OTHERS = {
    "logs w-0": "'logs'",
    "get svc": "'get' ('svc')",
    "get pods,svc": "'get' ('pods,svc')",
    "get pod/w-0 deploy/web": "'get' ('deploy/web')",
    "get": "'get' (without a resource)",
    "get pods -o json": "'get' ('--output=json')",
    "get pods -o jsonpath={.items[*].metadata.name}": "'get' ('--output=jsonpath={.items[*].metadata.name}')",
    "get pods -A": "'-A'",
    "get pods --context=other": "'--context'",
    "get pods --watch": "'--watch'",
    "get pods -w": "'-w'",
    "get pods -o": "'get' (option '-o' needs a value)",
    "get pods --no-headers=maybe": "'get' ('--no-headers=maybe' is neither true nor false)",
    "get pods --field-selector=spec.restartPolicy=Never": "'get' ('--field-selector=spec.restartPolicy=Never')",
    "version --client": "'version'",
    "": "a call without a command",
    "-n team": "a call without a command",
    "--help": "'--help'",
    "-h": "'-h'",
    "exec deploy/web -- a": "'deploy/web'",
    "exec -f pod.yaml -- a": "'-f'",
    "exec w-0 --kubeconfig=/secret -- a": "'--kubeconfig'",
    "--as me exec w-0 -- a": "'--as'",
    "-s https://there exec w-0 -- a": "'-s'",
    "exec -iz w-0 -- a": "'-z'",
}


@pytest.mark.parametrize("words", OTHERS)
def test_everything_else_is_said_not_to_be_known(words: str, tmp_path: Path) -> None:
    found = call(*words.split(), program=f"{tmp_path}/kubectl")
    assert found.host == "localhost"
    assert (found.namespace, found.container, found.query) == (None, None, None)
    done = subprocess.run([b"/bin/sh", b"-c", found.text], capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (1, b"")
    line = done.stderr.decode()
    assert line.startswith(f"rshagent: {OTHERS[words]} is not for this kubectl: ")
    assert "spec.tools: [kubectl]" in line
    assert line.endswith(f"as '{tmp_path}/kubectl.real' (docs/delivery.md)\n")
    assert "secret" not in line
    assert line.count("\n") == 1


@pytest.mark.parametrize("words", OTHERS)
def test_or_is_the_real_ones(words: str, tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    folder.mkdir()
    real = folder / "kubectl.real"
    real.write_text("#!/bin/sh\ncat\nfor word; do printf '<%s>' \"$word\"; done\nexit 7\n")
    real.chmod(0o755)
    found = call(*words.split(), "it's", program=f"{folder}/kubectl")
    assert found.wants_stdin
    done = subprocess.run([b"/bin/sh", b"-c", found.text], input=b"in ", capture_output=True, check=False, timeout=30)
    assert done.returncode == 7
    assert done.stdout.decode() == "in " + "".join(f"<{word}>" for word in [*words.split(), "it's"])
    assert done.stderr == b""


def test_without_a_folder_in_its_name_it_is_looked_for_where_delivery_puts_it() -> None:
    assert b"exec '/opt/kube/kubectl.real' 'version'" in call("version", program="kubectl").text
    assert b"exec './kubectl.real' 'version'" in call("version", program="./kubectl").text


def test_only_that_name_is_kubectl() -> None:
    assert call("w-0", "exec", program="/opt/kube/rshagent").text == b"exec"
    assert call("exec", "w-0", program="/opt/kube/kubectl.real").host == "exec"


@given(
    st.lists(
        st.sampled_from(["exec", "w-0", "--", "-", "-it", "-c", "-n", "--stdin", "--tty=0", "-i=", "-cx", "--v", "get"])
        | st.sampled_from(
            ["pods", "pod/w-0", "-o", "wide", "-l", "a!=b", "--no-headers", "-oname", "--field-selector="]
        )
        | st.text(max_size=6).filter(lambda word: "\0" not in word),
        max_size=8,
    )
)
def test_any_words_are_a_call_or_a_usage_error(words: list[str]) -> None:
    try:
        found = call(*(word.encode("utf-8", "replace") for word in words))
    except UsageError:
        return
    assert found.host
    assert found.text
