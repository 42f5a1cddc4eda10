"""The job's pair of keys, read from its Secret and checked as far as is possible without a cryptography library.

A pair that can't work is refused here, in one line: sshd and ssh would report it later, less clearly, on every pod.
No message holds a part of a key.
"""

from __future__ import annotations

import binascii
import os
from collections.abc import Iterator
from dataclasses import dataclass

from sshd_bootstrap import paths
from sshd_bootstrap.exits import KEY_BROKEN, KEYS_DIFFER, SECRET_INCOMPLETE, BootstrapError

_REMEDY = "delete the Secret, and the operator creates a new pair, or put a complete pair into it"
_MAGIC = b"openssh-key-v1\0"  # PROTOCOL.key of OpenSSH
_CURRENT = "..data"  # the link by which the kubelet replaces all files of a Secret together


@dataclass(frozen=True, slots=True, repr=False)
class Pair:
    """`private` is a PEM text that ends with a line break, `public` is `TYPE BASE64` without a comment."""

    private: bytes
    public: str


def read(folder: str) -> Pair:
    """Read the Secret's files, from one version of it. Raises BootstrapError."""
    while True:
        version = _version(folder)
        try:
            found = pair(_read(folder, paths.PRIVATE_KEY), _read(folder, paths.PUBLIC_KEY))
        except BootstrapError:
            if _version(folder) == version:
                raise
            continue
        if _version(folder) == version:  # else it was replaced between two reads
            return found


def pair(private: bytes, public: bytes) -> Pair:
    """Check a pair, and put it into the form that every OpenSSH reads. Raises BootstrapError."""
    words = public.decode("ascii", "replace").split()
    fields = _public_fields(words)
    text = private.replace(b"\r\n", b"\n").strip() + b"\n"
    own = _own_public(text)
    if own is not None and own != fields[-len(own) :]:
        raise BootstrapError(
            KEYS_DIFFER,
            f"{paths.PRIVATE_KEY} and {paths.PUBLIC_KEY} in the job's ssh Secret do not belong together: {_REMEDY}",
        )
    return Pair(text, " ".join(words[:2]))


def _version(folder: str) -> str:
    try:
        return os.readlink(os.path.join(folder, _CURRENT))
    except OSError:
        return ""


def _read(folder: str, name: str) -> bytes:
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        content = b""
    except OSError as error:
        raise BootstrapError(
            SECRET_INCOMPLETE, f"{path} can't be read by uid {os.geteuid()}: {error.strerror}; mount it with mode 0444"
        ) from None
    if not content.strip():
        raise BootstrapError(SECRET_INCOMPLETE, f"the job's ssh Secret (at {folder}) has no {name}: {_REMEDY}")
    return content


def _public_fields(words: list[str]) -> list[bytes]:
    """Return the fields of a public key: its type, and those that belong to that type."""
    try:
        fields = list(_fields(binascii.a2b_base64(words[1], strict_mode=True)))
        if len(fields) > 1 and fields[0] == words[0].encode():
            return fields
    except (IndexError, ValueError):
        pass
    raise _broken(paths.PUBLIC_KEY, "it is not a line `TYPE BASE64` of an OpenSSH public key")


def _own_public(private: bytes) -> list[bytes] | None:
    """Return the public key in a private key: its last fields; None if there is none.

    Numbers are the same in DER as in ssh's form (RFC 4251, 5: two's complement, as short as can be).
    """
    lines = private.decode("ascii", "replace").splitlines()
    label = lines[0].removeprefix("-----BEGIN ").removesuffix("-----")
    if lines[0] != f"-----BEGIN {label}-----" or not label.endswith("PRIVATE KEY"):
        raise _broken(paths.PRIVATE_KEY, "it does not begin as a PEM private key does")
    if lines[-1] != f"-----END {label}-----":
        raise _broken(paths.PRIVATE_KEY, "its end is missing")
    if label.startswith("ENCRYPTED") or any(line.startswith("Proc-Type:") for line in lines):
        raise _broken(paths.PRIVATE_KEY, "it has a passphrase, which nobody can enter")
    try:
        data = binascii.a2b_base64("".join(lines[1:-1]), strict_mode=True)
        if label == "OPENSSH PRIVATE KEY":
            return _openssh(data)
        return _from_der(label, list(_der(next(_der(data))[1])))
    except (ValueError, StopIteration):
        raise _broken(paths.PRIVATE_KEY, "its content is damaged") from None


def _from_der(label: str, top: list[tuple[int, bytes]]) -> list[bytes] | None:
    """Return the same for the elements of a key in PEM. Raises ValueError and StopIteration."""
    if label == "RSA PRIVATE KEY" and len(top) > 2:  # RFC 8017, A.1.2: version, modulus, exponent, …
        return [top[2][1], top[1][1]]
    points = [value for tag, value in top if tag == 0xA1]  # RFC 5915: [1] is the public key
    return [next(_der(points[0]))[1][1:]] if label == "EC PRIVATE KEY" and points else None


def _openssh(data: bytes) -> list[bytes]:
    """Return all fields of the public key in a private key of OpenSSH's own form. Raises ValueError."""
    if not data.startswith(_MAGIC):
        raise ValueError(_MAGIC)
    rest = data[len(_MAGIC) :]
    fields = _fields(rest)
    cipher, kdf, options = next(fields), next(fields), next(fields)
    if cipher != b"none":
        raise _broken(paths.PRIVATE_KEY, "it has a passphrase, which nobody can enter")
    at = sum(len(field) + 4 for field in (cipher, kdf, options))
    if rest[at : at + 4] != b"\0\0\0\1":
        raise ValueError(at)
    public, secret = list(_fields(rest[at + 4 :]))
    if len(secret) < 8 or secret[:4] != secret[4:8]:
        raise ValueError(at)
    return list(_fields(public))


def _fields(data: bytes) -> Iterator[bytes]:
    """Yield ssh's strings (RFC 4251, 5): each with its length before it, in four bytes. Raises ValueError."""
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        if len(data) < 4 or len(data) < end:
            raise ValueError(end)
        yield data[4:end]
        data = data[end:]


def _der(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of ASN.1 elements (X.690). Raises ValueError."""
    while data:
        at = 2
        length = data[1] if len(data) > 1 else -1
        if length > 0x80:
            at += length & 0x7F
            length = int.from_bytes(data[2:at], "big")
        if length < 0 or len(data) < at + length:
            raise ValueError(length)
        yield data[0], data[at : at + length]
        data = data[at + length :]


def _broken(name: str, why: str) -> BootstrapError:
    return BootstrapError(KEY_BROKEN, f"{name} in the job's ssh Secret is broken: {why}; {_REMEDY}")
