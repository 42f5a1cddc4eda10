"""Which connections go through a proxy: tables after Go's golang.org/x/net/http/httpproxy, which kubectl follows."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rshagent.net import proxy

CHOICES: list[tuple[dict[str, str], tuple[str, int, str | None] | None]] = [
    ({}, None),
    ({"HTTPS_PROXY": ""}, None),
    ({"HTTP_PROXY": "http://p:1"}, None),  # ours is an https server
    ({"HTTPS_PROXY": "http://p:3128"}, ("p", 3128, None)),
    ({"https_proxy": "http://p:3128"}, ("p", 3128, None)),
    ({"HTTPS_PROXY": "http://upper:1", "https_proxy": "http://lower:1"}, ("upper", 1, None)),
    ({"HTTPS_PROXY": "HTTP://p:3128/"}, ("p", 3128, None)),
    ({"HTTPS_PROXY": "http://p:3128/some/path"}, ("p", 3128, None)),
    ({"HTTPS_PROXY": "p:3128"}, ("p", 3128, None)),
    ({"HTTPS_PROXY": "p"}, ("p", 80, None)),
    ({"HTTPS_PROXY": "http://[fd00::1]:3128"}, ("fd00::1", 3128, None)),
    ({"HTTPS_PROXY": "http://u:p@w@p:3128"}, ("p", 3128, "Basic dTpwQHc=")),
    ({"HTTPS_PROXY": "http://u@p:3128"}, ("p", 3128, "Basic dQ==")),
    ({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "api.example"}, None),
    ({"HTTPS_PROXY": "http://p:3128", "no_proxy": "api.example"}, None),
    ({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "other.example"}, ("p", 3128, None)),
]


@pytest.mark.parametrize(("environ", "expected"), CHOICES)
def test_the_proxy_for_a_server(environ: dict[str, str], expected: tuple[str, int, str | None] | None) -> None:
    chosen = proxy.choose(environ, "api.example", 6443)
    assert (None if chosen is None else (chosen.host, chosen.port, chosen.authorization)) == expected


def test_the_kubeconfigs_own_proxy_counts_and_no_variable_exempts_from_it() -> None:
    chosen = proxy.choose({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, "api.example", 6443, "http://q:2")
    assert chosen is not None
    assert (chosen.host, chosen.port) == ("q", 2)


MISTAKES = [
    ("socks5://p:1080", "of the kind 'socks5' is not supported; http is"),
    ("https://p:443", "'https' is not supported"),
    ("http://", "no host"),
    ("http://:3128", "no host"),
    ("http://p q:3128", "no host"),
    ("http://p\r\nX-Evil", "no host"),
    ("http://p:0", "the port is not a number from 1 to 65535"),
    ("http://p:65536", "the port is not a number"),
    ("http://p:abc", "the port is not a number"),
    ("http://secret%zz@p:1", "a % that is not followed by two hexadecimal digits"),
    ("http://secret%4@p:1", "a % that is not followed"),
]


@pytest.mark.parametrize(("url", "words"), MISTAKES)
def test_a_mistake_is_a_line_without_the_password(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        proxy.choose({"HTTPS_PROXY": url}, "api.example", 6443)
    assert words in str(error.value)
    assert "secret" not in str(error.value)


EXEMPT = [
    # NO_PROXY, host, port, whether it is reached directly
    ("", "api.example", 443, False),
    ("*", "api.example", 443, True),
    (" , ,", "api.example", 443, False),
    ("example", "api.example", 443, True),
    ("example", "example", 443, True),
    ("example", "counterexample", 443, False),
    (".example", "api.example", 443, True),
    (".example", "example", 443, False),
    ("*.example", "api.example", 443, True),
    ("*.example", "example", 443, False),
    ("API.Example", "api.example", 443, True),
    ("api.example", "API.EXAMPLE.", 443, True),
    ("other, api.example ", "api.example", 443, True),
    ("api.example:6443", "api.example", 6443, True),
    ("api.example:6443", "api.example", 443, False),
    ("api.example:nonsense", "api.example", 443, False),
    ("10.96.0.1", "10.96.0.1", 443, True),
    ("10.96.0.1", "10.96.0.10", 443, False),
    ("10.96.0.1:443", "10.96.0.1", 443, True),
    ("10.96.0.1:443", "10.96.0.1", 6443, False),
    ("10.96.0.0/16", "10.96.255.1", 443, True),
    ("10.96.0.0/16", "10.97.0.1", 443, False),
    ("10.96.0.0/0", "192.0.2.1", 443, True),
    ("10.96.0.0/33", "10.96.0.1", 443, False),
    ("10.96.0.0/", "10.96.0.1", 443, False),
    ("10.96.0.0/" + "9" * 5000, "10.96.0.1", 443, False),
    ("10.96.0.0/16", "api.example", 443, False),
    ("10.0.0.0/8", "fd00::1", 443, False),
    ("10.0.0.0/255.0.0.0", "10.1.2.3", 443, False),
    ("fd00::/8", "fd12:3456::1", 443, True),
    ("fd00::/8", "fe80::1", 443, False),
    ("[fd00::1]", "fd00::1", 443, True),
    ("[fd00::1]:443", "fd00::1", 443, True),
    ("[fd00::1]:443", "fd00::1", 6443, False),
    ("FD00:0:0::1", "fd00::1", 443, True),
    ("", "localhost", 443, True),
    ("", "127.0.0.1", 443, True),
    ("", "127.255.0.1", 443, True),
    ("", "::1", 443, True),
    ("", "127.example", 443, False),
]


@pytest.mark.parametrize(("no_proxy", "host", "port", "expected"), EXEMPT)
def test_who_is_reached_directly(no_proxy: str, host: str, port: int, expected: bool) -> None:
    assert proxy.is_exempt(host, port, no_proxy) is expected


SPLIT = [
    ("host", ("host", 9)),
    ("host:1", ("host", 1)),
    ("host:65535", ("host", 65535)),
    ("host:", ("host", 9)),
    ("[::1]:7", ("::1", 7)),
    ("[::1]", ("::1", 9)),
    ("fd00::1", ("fd00::1", 9)),
    (":7", ("", 7)),
    ("", ("", 9)),
]


@pytest.mark.parametrize(("authority", "expected"), SPLIT)
def test_hosts_and_ports(authority: str, expected: tuple[str, int]) -> None:
    assert proxy.split_host(authority, 9) == expected


@given(user=st.text(min_size=1), password=st.text())
def test_any_credentials_that_are_escaped_arrive(user: str, password: str) -> None:
    raw = f"{user}:{password}".encode()
    url = "http://" + "".join(f"%{byte:02x}" for byte in raw) + "@p:1"
    chosen = proxy.choose({"HTTPS_PROXY": url}, "api.example", 443)
    assert chosen is not None
    assert chosen.authorization is not None
    assert base64.b64decode(chosen.authorization.removeprefix("Basic ")) == raw


URLS = st.lists(
    st.sampled_from(["http", "://", ":", "@", "%", "[", "]", "/", "1", "p"]) | st.text(max_size=3), max_size=8
)


@given(url=URLS.map("".join), no_proxy=URLS.map("".join), host=URLS.map("".join))
def test_any_settings_are_a_proxy_none_or_a_value_error_in_one_line(url: str, no_proxy: str, host: str) -> None:
    try:
        chosen = proxy.choose({"HTTPS_PROXY": url, "NO_PROXY": no_proxy}, host, 443)
    except ValueError as error:
        assert str(error).isprintable()  # noqa: PT017 (None is fine as well)
        return
    if chosen is not None:
        assert proxy.is_host(chosen.host)
        assert 0 < chosen.port < 65536
        assert chosen.authorization is None or chosen.authorization.isprintable()
