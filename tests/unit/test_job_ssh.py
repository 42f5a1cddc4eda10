"""What a job says of its ssh, in every dialect."""

from __future__ import annotations

import pytest
from mpijobs import annotated, job, mpijob, problems

from agents.job.model import KeyType, Passwd, Ssh

VERSIONS = ["v1", "v2beta1", "t9k"]


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_need_be_said(version: str) -> None:
    assert job(version).ssh == Ssh("/root/.ssh", "/usr/sbin/sshd", None, KeyType.ED25519, Passwd.AUTO)


@pytest.mark.parametrize("version", VERSIONS)
def test_fields(version: str) -> None:
    path = "spec/ssh/sshAuthMountPath" if version == "t9k" else "spec/sshAuthMountPath"
    fields = {"sshdPath": "/opt/sshd", "port": 2022, "keyType": "ecdsa", "passwd": "generated"}
    found = job(version, {"spec/ssh": fields, path: "/home/mpi user/.ssh/"}).ssh
    assert found == Ssh("/home/mpi user/.ssh", "/opt/sshd", 2022, KeyType.ECDSA, Passwd.GENERATED)


@pytest.mark.parametrize("version", VERSIONS)
def test_annotations_win(version: str) -> None:
    given = annotated(
        ssh_auth_mount_path="/keys", sshd_path="/sshd", ssh_port="7", ssh_key_type="ed25519", ssh_passwd="image"
    )
    fields = {"sshdPath": "/opt/sshd", "port": 2022, "keyType": "ecdsa", "passwd": "generated"}
    assert job(version, given | {"spec/ssh": fields}).ssh == Ssh("/keys", "/sshd", 7, KeyType.ED25519, Passwd.IMAGE)


def test_t9ks_path_stands_in_its_ssh_alone_and_kubeflows_in_its_spec() -> None:
    assert job("t9k", {"spec/sshAuthMountPath": "/keys"}).ssh.mount_path == "/root/.ssh"
    assert job("v1", {"spec/ssh": {"sshAuthMountPath": "/keys"}}).ssh.mount_path == "/root/.ssh"


@pytest.mark.parametrize("path", ["keys", "./keys", "/", "//", "/a:b", '/a"b', "/a%h", "/a$b", "/a\\b", "/a\nb"])
def test_what_is_no_path_for_ssh(path: str) -> None:
    words = 'must be an absolute path without : " % $ \\'
    assert problems(mpijob("v2beta1", {"spec/sshAuthMountPath": path})) == [f"spec.sshAuthMountPath: {words}"]
    assert problems(mpijob("t9k", {"spec/ssh": {"sshdPath": path}})) == [f"spec.ssh.sshdPath: {words}"]
    found = problems(mpijob("v1", annotated(sshd_path=path)))
    assert found == [f"metadata.annotations[mpi-agents/sshd-path]: {words}"]
