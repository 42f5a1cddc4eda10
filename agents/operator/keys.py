"""Pairs of keys for ssh jobs. They go into a Secret, and nowhere else: not into a log, an argument or a cache."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives.asymmetric.ec import SECP521R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from agents.job.model import KeyType


def new_pair(key_type: KeyType) -> dict[str, str]:
    """Return the `data` of a Secret of type kubernetes.io/ssh-auth, as mpi-operator v0.8.2 names its keys.

    ECDSA is on P-521 and in the form that kubeflow writes, which the oldest OpenSSH reads.
    """
    private: bytes
    if key_type is KeyType.ECDSA:
        ecdsa = generate_private_key(SECP521R1())
        private = ecdsa.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        public = ecdsa.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    else:
        ed25519 = Ed25519PrivateKey.generate()
        private = ed25519.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = ed25519.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    pair = {"ssh-privatekey": private, "ssh-publickey": public + b"\n"}
    return {name: base64.b64encode(content).decode() for name, content in pair.items()}
