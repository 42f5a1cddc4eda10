"""What shows that a launcher has logged in nowhere: nobody has opened its key, by whatever ssh it calls."""

from __future__ import annotations

import pytest
from ssh_pods import RUN, Pods, Spec, helpers, needs_pods, pods
from test_sshd_sessions import USERS

from delivery.sshd.key_use import KeyUse

__all__ = ["helpers", "pods"]
pytestmark = needs_pods

_OWN = ("ssh", "-F", "none", "-oBatchMode=yes", f"-oUserKnownHostsFile={RUN}/known_hosts", "-p2222")
CALLS = {
    "as mpirun calls it": ("ssh", "-F", f"{RUN}/ssh_config", "127.0.0.1", "true"),
    "by the key in ~/.ssh": (*_OWN, "-i", "KEYS/id_rsa", "127.0.0.1", "true"),
    "that is copied before": (
        "sh",
        "-c",
        f"umask 77; cp KEYS/id_rsa {RUN}/own; {' '.join(_OWN)} -i {RUN}/own 127.0.0.1 true",
    ),
}


@pytest.mark.parametrize("spec", [USERS["root"], USERS["uid 1000 of the image"]], ids=["root", "uid 1000"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_login_is_seen(call: tuple[str, ...], spec: Spec, pods: Pods) -> None:
    pod = pods.new(spec)
    pod.serve()
    use = KeyUse([f"{pod.volume}/auth/id_rsa", f"{pod.volume}/run/identity"])
    assert pod.run("ls", "-l", pod.mount_path, RUN).returncode == 0
    assert use.is_unused
    done = pod.run(*(word.replace("KEYS", pod.mount_path) for word in call))
    assert (done.returncode, done.stderr) == (0, b"")
    assert not use.is_unused
    use.close()


def test_a_login_through_a_read_only_mount_is_seen(pods: Pods) -> None:
    """As a pod's container has ~/.ssh."""
    pod = pods.new()
    pod.serve()
    assert pod.run("mount", "-o", "remount,bind,ro", pod.mount_path).returncode == 0
    use = KeyUse([f"{pod.volume}/auth/id_rsa"])
    done = pod.run(*_OWN, "-i", f"{pod.mount_path}/id_rsa", "127.0.0.1", "true")
    assert (done.returncode, done.stderr) == (0, b"")
    assert not use.is_unused
    use.close()


def test_what_can_not_be_followed_may_be_used(tmp_path: object) -> None:
    use = KeyUse([f"{tmp_path}/none"])
    assert not use.is_unused
    use.close()
