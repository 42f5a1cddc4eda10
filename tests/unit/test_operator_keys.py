"""Pairs of keys, as OpenSSH reads them."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from agents.job.model import KeyType
from agents.operator.executor import new_key_pair

if TYPE_CHECKING:
    from pathlib import Path

KEYGEN = shutil.which("ssh-keygen")


@pytest.mark.parametrize(
    ("key_type", "name", "first_line"),
    [
        (KeyType.ED25519, "ssh-ed25519", "-----BEGIN OPENSSH PRIVATE KEY-----"),
        (KeyType.ECDSA, "ecdsa-sha2-nistp521", "-----BEGIN EC PRIVATE KEY-----"),  # kubeflow's
    ],
)
def test_a_pair_is_of_the_wanted_type_and_openssh_makes_the_same_public_key_of_it(
    tmp_path: Path, key_type: KeyType, name: str, first_line: str
) -> None:
    pair = new_key_pair(key_type)
    assert pair.keys() == {"ssh-privatekey", "ssh-publickey"}
    private, public = (base64.b64decode(pair[f"ssh-{one}key"], validate=True) for one in ("private", "public"))
    assert private.decode().splitlines()[0] == first_line
    assert private.endswith(b"-----\n")
    assert public.decode().split()[0] == name
    assert public.count(b"\n") == 1
    if KEYGEN is None:
        pytest.skip("no ssh-keygen here")
    (tmp_path / "key").write_bytes(private)
    os.chmod(tmp_path / "key", 0o600)
    done = subprocess.run([KEYGEN, "-y", "-f", str(tmp_path / "key")], capture_output=True, check=True)
    assert done.stdout.split() == public.split()


def test_no_two_pairs_are_alike() -> None:
    assert len({new_key_pair(KeyType.ED25519)["ssh-privatekey"] for _ in range(5)}) == 5
