"""The job's Secret: pairs that the operator and people make, and every way to break one."""

from __future__ import annotations

import base64
import contextlib
import os
from functools import cache
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from agents.job.model import KeyType
from sshd_bootstrap import keys
from sshd_bootstrap.exits import KEY_BROKEN, KEYS_DIFFER, SECRET_INCOMPLETE, BootstrapError
from tests.keys import write_keys

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

MADE: dict[str, PrivateKey] = {
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
    "ecdsa": ec.generate_private_key(ec.SECP521R1()),
    "ecdsa 256": ec.generate_private_key(ec.SECP256R1()),
    "rsa": rsa.generate_private_key(65537, 2048),
}
FORMS = {"OpenSSH": PrivateFormat.OpenSSH, "PEM": PrivateFormat.TraditionalOpenSSL, "PKCS 8": PrivateFormat.PKCS8}
CASES = [(kind, form) for kind in MADE for form in FORMS if (kind, form) != ("ed25519", "PEM")]


@cache  # each time one is written in OpenSSH's form, it is another
def private(kind: str, form: str, encryption: KeySerializationEncryption | None = None) -> bytes:
    return MADE[kind].private_bytes(Encoding.PEM, FORMS[form], encryption or NoEncryption())


def public(kind: str) -> bytes:
    return MADE[kind].public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


def refusal(private_key: bytes, public_key: bytes) -> tuple[int, str]:
    with pytest.raises(BootstrapError) as failed:
        keys.pair(private_key, public_key)
    return failed.value.exit_code, failed.value.message


# ---- pairs that work ----


@pytest.mark.parametrize(("kind", "form"), CASES)
def test_pairs_of_every_type_and_form(kind: str, form: str) -> None:
    found = keys.pair(private(kind, form), public(kind) + b" me@here\n")
    assert found.private == private(kind, form)
    assert found.public.encode() == public(kind)


@pytest.mark.parametrize("key_type", KeyType)
def test_the_operators_pairs(key_type: KeyType, tmp_path: Path) -> None:
    write_keys(tmp_path, key_type)
    assert keys.read(str(tmp_path)).private == (tmp_path / "ssh-privatekey").read_bytes()


def test_line_breaks_are_put_right() -> None:
    """OpenSSH reads no key without a line break at its end, as editors and `kubectl create secret` leave it."""
    whole = private("ed25519", "OpenSSH")
    for changed in (whole.rstrip(), whole.replace(b"\n", b"\r\n"), b"\n" + whole + b"\n\n"):
        assert keys.pair(changed, public("ed25519")).private == whole


def test_a_pair_shows_nothing_of_itself() -> None:
    found = keys.pair(private("ed25519", "OpenSSH"), public("ed25519"))
    assert "BEGIN" not in repr(found)
    assert "AAAA" not in repr(found)


# ---- pairs that don't ----


@pytest.mark.parametrize(("kind", "form"), [case for case in CASES if case[1] != "PKCS 8"])
def test_keys_that_are_not_of_one_pair(kind: str, form: str) -> None:
    for other in MADE:
        if other != kind:
            assert refusal(private(kind, form), public(other))[0] == KEYS_DIFFER
    same_kind = type(MADE[kind])
    fresh: PrivateKey = (
        ed25519.Ed25519PrivateKey.generate()
        if same_kind is type(MADE["ed25519"])
        else rsa.generate_private_key(65537, 2048)
        if same_kind is type(MADE["rsa"])
        else ec.generate_private_key(ec.SECP521R1())
    )
    theirs = fresh.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    assert refusal(private(kind, form), theirs) == (
        KEYS_DIFFER,
        "ssh-privatekey and ssh-publickey in the job's ssh Secret do not belong together: delete the Secret, and the "
        "operator creates a new pair, or put a complete pair into it",
    )


def test_a_passphrase() -> None:
    for form, encrypted in (("PEM", "ecdsa"), ("PKCS 8", "ecdsa")):
        code, line = refusal(private(encrypted, form, BestAvailableEncryption(b"secret")), public("ecdsa"))
        assert code == KEY_BROKEN
        assert "it has a passphrase, which nobody can enter" in line
    openssh = base64.b64encode(b"openssh-key-v1\0\0\0\0\x0aaes256-ctr\0\0\0\x06bcrypt\0\0\0\0\0\0\0\1")
    wrapped = b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + openssh + b"\n-----END OPENSSH PRIVATE KEY-----\n"
    assert "it has a passphrase" in refusal(wrapped, public("ed25519"))[1]


WHOLE = private("ed25519", "OpenSSH").splitlines()
BROKEN_PRIVATE = {
    b"no key\n": "it does not begin as a PEM private key does",
    public("ed25519"): "it does not begin as a PEM private key does",
    b"\n".join(WHOLE[1:]): "it does not begin as a PEM private key does",
    b"\n".join(WHOLE[:-1]): "its end is missing",
    WHOLE[0]: "its end is missing",
    b"\n".join([*WHOLE[:2], *WHOLE[3:]]): "its content is damaged",
    b"\n".join([WHOLE[0], b"!" + WHOLE[1][1:], *WHOLE[2:]]): "its content is damaged",
    b"\n".join([WHOLE[0], b"AAAA" + WHOLE[1][4:], *WHOLE[2:]]): "its content is damaged",
    b"\n".join([WHOLE[0], WHOLE[-1]]): "its content is damaged",
    b"-----BEGIN EC PRIVATE KEY-----\nMAMA\n-----END EC PRIVATE KEY-----": "its content is damaged",
    b"\xff\xfe\x00": "it does not begin as a PEM private key does",
}


@pytest.mark.parametrize(("content", "why"), BROKEN_PRIVATE.items(), ids=range(len(BROKEN_PRIVATE)))
def test_a_broken_private_key(content: bytes, why: str) -> None:
    assert refusal(content, public("ed25519")) == (
        KEY_BROKEN,
        f"ssh-privatekey in the job's ssh Secret is broken: {why}; delete the Secret, and the operator creates a "
        "new pair, or put a complete pair into it",
    )


@pytest.mark.parametrize(
    "content",
    [b"ssh-ed25519", b"ssh-ed25519 AAAA", b"ssh-rsa " + public("ed25519")[12:], public("rsa")[:-3], b"\xff x"],
    ids=["type alone", "short", "of another type", "cut", "no text"],
)
def test_a_broken_public_key(content: bytes) -> None:
    code, line = refusal(private("ed25519", "OpenSSH"), content)
    assert code == KEY_BROKEN
    assert line.startswith("ssh-publickey in the job's ssh Secret is broken: it is not a line `TYPE BASE64`")


@given(st.sampled_from(CASES), st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
def test_damage_is_told_in_one_line_and_never_shows_the_key(case: tuple[str, str], at: int, put: bytes) -> None:
    whole = private(*case)
    changed = whole[: at % len(whole)] + put + whole[at % len(whole) + len(put) :]
    message = ""
    try:
        keys.pair(changed, public(case[0]))
    except BootstrapError as error:
        message = error.message
    assert "\n" not in message
    assert whole.splitlines()[1][:16].decode() not in message


@given(st.sampled_from(CASES), st.integers(0, 10_000), st.integers(0, 255))
def test_damage_below_the_base64_is_told_as_well(case: tuple[str, str], at: int, put: int) -> None:
    first, *lines, last = private(*case).splitlines()
    content = bytearray(base64.b64decode(b"".join(lines)))
    content[at % len(content)] = put
    with contextlib.suppress(BootstrapError):  # and no other error
        keys.pair(b"\n".join([first, base64.b64encode(content), last]), public(case[0]))


@pytest.mark.parametrize("point", [b"", b"\x03", b"\x03\x7f", b"\x03\x82\xff"])
def test_a_damaged_point_of_an_ecdsa_key(point: bytes) -> None:
    inside = b"\x02\x01\x01\xa1" + bytes((len(point),)) + point
    der = base64.b64encode(b"\x30" + bytes((len(inside),)) + inside)
    pem = b"-----BEGIN EC PRIVATE KEY-----\n" + der + b"\n-----END EC PRIVATE KEY-----\n"
    code, line = refusal(pem, public("ecdsa"))
    assert code == KEY_BROKEN
    assert "its content is damaged" in line


# ---- the Secret's folder ----


@pytest.mark.parametrize("lacking", ["ssh-privatekey", "ssh-publickey"])
@pytest.mark.parametrize("left", [None, b"", b"\n"])
def test_an_incomplete_secret(lacking: str, left: bytes | None, tmp_path: Path) -> None:
    (tmp_path / "ssh-privatekey").write_bytes(private("ed25519", "OpenSSH"))
    (tmp_path / "ssh-publickey").write_bytes(public("ed25519"))
    (tmp_path / lacking).unlink()
    if left is not None:
        (tmp_path / lacking).write_bytes(left)
    with pytest.raises(BootstrapError) as failed:
        keys.read(str(tmp_path))
    assert failed.value.exit_code == SECRET_INCOMPLETE
    assert failed.value.message == (
        f"the job's ssh Secret (at {tmp_path}) has no {lacking}: delete the Secret, and the operator creates a new "
        "pair, or put a complete pair into it"
    )


def test_a_secret_that_is_replaced_between_two_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kubelet does it: a new folder, and the link ..data to it."""
    for name, kind in (("1", "ed25519"), ("2", "ecdsa")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ssh-privatekey").write_bytes(private(kind, "OpenSSH"))
        (tmp_path / name / "ssh-publickey").write_bytes(public(kind))
    (tmp_path / "..data").symlink_to("1")
    for name in ("ssh-privatekey", "ssh-publickey"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    reads = 0

    def slow(path: str, mode: str) -> BinaryIO:
        nonlocal reads
        reads += 1
        if reads == 2:
            os.symlink("2", tmp_path / "new")
            os.rename(tmp_path / "new", tmp_path / "..data")
        return open(path, mode)  # type: ignore[return-value]

    monkeypatch.setattr(keys, "open", slow, raising=False)
    assert keys.read(str(tmp_path)).public.encode() == public("ecdsa")
    assert reads == 4
