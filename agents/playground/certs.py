"""A certificate authority for the stand-in and the tests: ECDSA, valid for days."""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
LOOPBACK = ("127.0.0.1", "::1")


@dataclass(frozen=True)
class Pair:
    """Paths of a certificate and of its key, both PEM."""

    certificate: str
    key: str


class Authority:
    """A CA in a folder."""

    def __init__(self, folder: str, name: str = "stand-in-ca", days: int = 2) -> None:
        self._folder = folder
        self._valid = datetime.timedelta(days=days)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        certificate = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.certificate = os.path.join(folder, "ca.crt")
        _write(self.certificate, certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, file: str = "server", addresses: Sequence[str] = LOOPBACK) -> Pair:
        """A certificate for the API server, or another that is reached by the same names."""
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        return self.issue(file, _name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def issue(
        self, file: str, name: x509.Name, usage: x509.ObjectIdentifier, alternatives: Sequence[x509.GeneralName] = ()
    ) -> Pair:
        """A certificate for this use, in files of this name; `alternatives` are a server's names."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(name, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        pair = Pair(os.path.join(self._folder, f"{file}.crt"), os.path.join(self._folder, f"{file}.key"))
        _write(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM))
        encryption = serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        _write(pair.key, pem)
        return pair

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + self._valid)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(issuer_key, critical=False)
        )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _write(path: str, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
