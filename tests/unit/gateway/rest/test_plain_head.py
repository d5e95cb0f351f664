"""A plain head means what a whole parser reads in it; everything else is declined."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.rest.plain_head import read_head

LINES = [b"Host: h:1", b"Content-Type: application/json", b"Content-Length: 2"]


def head(*lines: bytes, first: bytes = b"POST /topics/t HTTP/1.1") -> bytes:
    return b"\r\n".join((first, *lines, b"", b""))


_LINE = st.sampled_from(
    [
        *LINES,
        b"content-length: 3",
        b"Content-Length: 2, 2",
        b"Content-Length: +2",
        b"Content-Length : 2",
        b"Transfer-Encoding: chunked",
        b"Expect: 100-continue",
        b"Connection: close",
        b"Connection: keep-alive",
        b"Connection: Upgrade",
        b"Upgrade: websocket",
        b"Origin: http://elsewhere",
        b"User-Agent: a b",
        b"User-Agent: a \t",
        b" folded: line",
        b"User-Agent: a\nContent-Length: 9",
        b"User-Agent: a\rb",
        b"User-Agent: \xc3\xa9",
        b"Accept:*/*",
        b"Accept:",
        b"",
    ]
)
_FIRST = st.sampled_from(
    [
        b"POST /topics/t HTTP/1.1",
        b"POST /topics/t HTTP/1.0",
        b"POST /topics/%2e HTTP/1.1",
        b"POST /topics/t?a HTTP/1.1",
        b"POST http://h/topics/t HTTP/1.1",
        b"GET /topics/t HTTP/1.1",
        b"POST  /topics/t HTTP/1.1",
    ]
)


@given(_FIRST, st.lists(_LINE, max_size=6), st.binary(max_size=4))
def test_what_is_read_is_what_h11_reads(first: bytes, lines: list[bytes], behind: bytes) -> None:
    data = head(*LINES[: len(lines) % 4], *lines, first=first) + behind
    found = read_head(data)
    if found is None:
        return

    peer = h11.Connection(h11.SERVER)
    peer.receive_data(found.data + b"x" * found.body_bytes)
    request = peer.next_event()
    assert isinstance(request, h11.Request)
    assert (request.method, request.target) == (b"POST", found.path)
    assert {name.decode(): value.decode() for name, value in request.headers} == found.headers
    body = peer.next_event()
    assert isinstance(body, h11.Data)
    assert len(body.data) == found.body_bytes
    assert isinstance(peer.next_event(), h11.EndOfMessage)
    assert peer.trailing_data[0] == b""
    assert peer.their_state is h11.DONE  # and not MUST_CLOSE


@pytest.mark.parametrize(
    "lines",
    [
        (*LINES, b"Transfer-Encoding: chunked"),
        (*LINES, b"Content-Length: 2"),
        (*LINES, b"Expect: 100-continue"),
        (*LINES, b"Connection: close"),
        (*LINES, b"X-Other: 1"),
        (LINES[0], b"Content-Length: 0"),
        LINES[1:],
        LINES[:2],
    ],
)
def test_anything_unusual_is_declined(lines: list[bytes]) -> None:
    assert read_head(head(*LINES)) is not None
    assert read_head(head(*lines)) is None


def test_a_head_that_is_incomplete_or_long_is_declined() -> None:
    whole = head(*LINES)

    assert all(read_head(whole[:at]) is None for at in range(len(whole)))
    assert read_head(head(*LINES, b"User-Agent: " + b"x" * 5000)) is None
