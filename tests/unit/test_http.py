"""HTTP answers: what they say does not depend on how they were split, and nothing but HttpError comes of bad ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from splitting import PLACES, byte_by_byte, cut

from rshagent.net.http import HEAD_MAX, BodyReader, Head, HeadReader, HttpError, parse_head

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"

WHOLE = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
    (CHUNKED + b"5\r\nhello\r\n6;x=1\r\n world\r\n0\r\n\r\n", 200, b"hello world"),
    (CHUNKED.replace(b"Transfer", b"transfer") + b"0a\r\n" + b"\r\n" * 6 + b"0\r\nA: b\r\n\r\n", 200, b"\r\n" * 5),
    (b"HTTP/1.1 404 Not Found\r\nCONTENT-LENGTH:0\r\n\r\n", 404, b""),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    (b"HTTP/1.0 403\r\nContent-Length: 2\r\n\r\nno", 403, b"no"),
    # Both lengths: the chunks count (RFC 9112 §6.3).
    (CHUNKED.replace(b"Tr", b"Content-Length: 3\r\nTr") + b"5\r\nhello\r\n0\r\n\r\n", 200, b"hello"),
]  # fmt: skip
CASES = pytest.mark.parametrize(("data", "status", "body"), WHOLE)


def read(pieces: list[bytes]) -> tuple[Head | None, bytes, bool]:
    """Return head and body as far as they came, and whether that was all."""
    heads, body = HeadReader(), b""
    rest = iter(pieces)
    for piece in rest:
        head = heads.feed(memoryview(piece))
        if head is not None:
            break
    else:
        return None, b"", False
    reader = BodyReader(head)
    body = reader.feed(heads.rest)
    for piece in rest:
        body += reader.feed(memoryview(piece))
    return head, body, reader.done


def check(pieces: list[bytes], status: int, body: bytes) -> None:
    head, seen, is_whole = read(pieces)
    assert head is not None
    assert (head.status, seen, is_whole) == (status, body, True)


@CASES
def test_an_answer_in_one_piece_byte_by_byte_and_followed_by_more(data: bytes, status: int, body: bytes) -> None:
    check([data], status, body)
    check(byte_by_byte(data), status, body)
    check([data + b"HTTP/1.1 500 another"], status, body)


@CASES
@given(places=PLACES)
def test_an_answer_in_any_pieces(places: list[int], data: bytes, status: int, body: bytes) -> None:
    check(cut(data, places), status, body)


@CASES
def test_an_answer_that_is_cut_off_is_never_whole(data: bytes, status: int, body: bytes) -> None:
    for end in range(len(data)):
        _, seen, is_whole = read([data[:end]])
        assert not is_whole
        assert body.startswith(seen)


@given(body=st.binary(max_size=3000), sizes=st.lists(st.integers(1, 400), max_size=20), places=PLACES)
def test_chunks_give_the_body_back(body: bytes, sizes: list[int], places: list[int]) -> None:
    coded, at = b"", 0
    for size in [*sizes, len(body)]:
        part = body[at : at + size]
        at += len(part)
        coded += b"%x\r\n%s\r\n" % (len(part), part) if part else b""
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + coded + b"0\r\n\r\n"
    check(cut(data, places), 200, body)


def test_a_body_without_a_length_ends_with_the_stream() -> None:
    head, body, is_whole = read([b"HTTP/1.1 502 Bad\r\n\r\n<html>", b"</html>"])
    assert head is not None
    assert (head.status, body, is_whole) == (502, b"<html></html>", False)


def test_header_names_are_in_lower_case_and_values_without_blanks() -> None:
    head = parse_head(b"HTTP/1.1 429 Too Many\r\nRetry-After:  7 \r\nX-A: b: c\r\nEmpty:")
    assert (head.status, head.fields) == (429, {"retry-after": "7", "x-a": "b: c", "empty": ""})


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 2\xb20 OK\r\n\r\n",  # a digit to Unicode, and no number
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfive\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * (HEAD_MAX + 1),
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * HEAD_MAX,
    ],
)
def test_what_is_no_answer_is_an_http_error(data: bytes) -> None:
    with pytest.raises(HttpError):
        read([data])
    with pytest.raises(HttpError):
        read(cut(data, list(range(0, len(data), 1000))))


HEADS = st.sampled_from(
    [CHUNKED, CHUNKED[:17], CHUNKED[17:], b"Content-Length: 7\r\n", b"\r\n", b"5\r\n", b"0\r\n", b"x"]
)


@given(pieces=st.lists(HEADS | st.binary(max_size=40), max_size=12))
def test_any_bytes_are_an_answer_or_an_http_error(pieces: list[bytes]) -> None:
    try:
        head, body, _ = read(pieces)
    except HttpError:
        return
    assert head is None or len(body) <= sum(map(len, pieces))
