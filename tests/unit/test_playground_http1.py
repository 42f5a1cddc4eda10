"""HTTP/1.1 requests out of any split of their bytes."""

from __future__ import annotations

import pytest

from agents.playground import http1

POST = b"POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"POST /y HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
GET = (
    b"GET /a%20b/exec?command=sh&command=-c&command=x%3By&stdin=true&tty=0 HTTP/1.1\r\nHost: h\r\nX: 1\r\nX: 2\r\n\r\n"
)


@pytest.mark.parametrize("step", [1, 3, 50, 10_000])
def test_each_split_gives_the_same_requests(step: int) -> None:
    data = POST + CHUNKED + GET + b"rest"
    reader = http1.RequestReader()
    requests = []
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
        while (request := reader.next()) is not None:
            requests.append(request)
    assert [(request.method, request.path, request.body) for request in requests] == [
        ("POST", "/x", b"hello"),
        ("POST", "/y", b"abcde"),
        ("GET", "/a b/exec", b""),
    ]
    assert requests[2].query["command"] == ["sh", "-c", "x;y"]
    assert requests[2].headers["x"] == "1, 2"
    assert (requests[2].flag("stdin"), requests[2].flag("tty"), requests[2].flag("stdout")) == (True, False, False)
    assert reader.rest() == b"rest"


def test_a_command_that_is_not_utf8_keeps_its_bytes() -> None:
    reader = http1.RequestReader()
    reader.feed(b"GET /x?command=%FF%00 HTTP/1.1\r\n\r\n")
    request = reader.next()
    assert request is not None
    assert request.first("command").encode("utf-8", "surrogateescape") == b"\xff\0"


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"x" * (1 << 21),
    ],
)
def test_what_is_no_request(data: bytes) -> None:
    reader = http1.RequestReader()
    reader.feed(data)
    with pytest.raises(http1.BadRequestError):
        reader.next()


def test_responses() -> None:
    assert http1.response(200, b"ok", "text/plain", Retry_After="3") == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nRetry-After: 3\r\n\r\nok"
    )
    assert http1.chunk(b"x" * 17) == b"11\r\n" + b"x" * 17 + b"\r\n"
    assert http1.chunk(b"") == b"0\r\n\r\n"
