"""Whether the API server is reached through an HTTP proxy, by the environment's usual variables.

The rules are those of Go's golang.org/x/net/http/httpproxy, which kubectl follows. Pure.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple


class Proxy(NamedTuple):
    """An HTTP proxy that is asked to CONNECT; `authorization` is its header's value or None."""

    host: str
    port: int
    authorization: str | None


def choose(environ: Mapping[str, str], host: str, port: int, url: str | None = None) -> Proxy | None:
    """Return the proxy for an https server, None for a direct connection. Raises ValueError with a line for people.

    `url` is the kubeconfig's own proxy-url, which no variable overrides.
    """
    if url is None:
        url = environ.get("HTTPS_PROXY") or environ.get("https_proxy")
        if not url or is_exempt(host, port, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
            return None
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "http", url
    if scheme.lower() != "http":
        raise ValueError(f"a proxy of the kind {scheme!a} is not supported; http is")
    credentials, _, address = rest.rpartition("@")
    proxy_host, proxy_port = split_host(address.partition("/")[0], 80)
    if not is_host(proxy_host):
        raise ValueError("the proxy's address has no host")
    return Proxy(proxy_host, proxy_port, _basic(credentials) if credentials else None)


def is_exempt(host: str, port: int, no_proxy: str) -> bool:
    """Say whether NO_PROXY, or being this machine, makes `host` be reached directly."""
    host = host.lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), host, port) for entry in no_proxy.split(",") if entry.strip())


def split_host(authority: str, default_port: int) -> tuple[str, int]:
    """Split `host`, `host:port`, `[address]:port` or a bare IPv6 address. Raises ValueError for a port that is none."""
    if authority.startswith("["):
        host, _, rest = authority[1:].partition("]")
        port = rest[1:] if rest.startswith(":") else ""
    elif authority.count(":") == 1:
        host, _, port = authority.partition(":")
    else:
        host, port = authority, ""
    if not port:
        return host, default_port
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("the port is not a number from 1 to 65535")
    return host, int(port)


def is_host(text: str) -> bool:
    """Say whether a text can be a host in a URL; one of other letters is written in its ASCII form (xn--…)."""
    return text[:1] not in ("", ".") and text.isascii() and all(char.isalnum() or char in "-._~:%" for char in text)


def _matches(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        return address is not None and _in_network(address, entry)
    try:
        entry, entry_port = split_host(entry, port)
    except ValueError:
        return False
    if entry_port != port:
        return False
    if entry.startswith("*."):
        entry = entry[1:]
    if entry.startswith("."):
        return host.endswith(entry)
    return host == entry or host.endswith("." + entry) or (address is not None and address == _address(entry))


def _in_network(address: IPv4Address | IPv6Address, network: str) -> bool:
    try:
        return network.rpartition("/")[2].isdecimal() and address in ip_network(network, strict=False)
    except ValueError:
        return False


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _basic(credentials: str) -> str:
    """Return the header of RFC 7617 for `user:password` as it stands in a URL. Raises ValueError, without them."""
    first, *escaped = credentials.encode("utf-8", "surrogateescape").split(b"%")
    try:
        plain = first + b"".join([binascii.unhexlify(part[:2]) + part[2:] for part in escaped])
    except ValueError:
        raise ValueError(
            "the proxy's user or password has a % that is not followed by two hexadecimal digits"
        ) from None
    return "Basic " + binascii.b2a_base64(plain, newline=False).decode()
