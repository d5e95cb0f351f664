"""Lines out of files and streams, whatever they are cut into."""

import os
import tempfile
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ingest.file.line_file import pieces, read_lines
from headrace.ingest.format.line_buffer import LineBuffer
from headrace.ingest.format.syslog import SyslogFraming

CONTENT = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\xff\x00"]), max_size=60).map(
    b"".join
)


@settings(deadline=None)
@given(CONTENT, st.integers(1, 30), st.integers(1, 12), st.integers(1, 7))
def test_a_file_gives_its_lines_whatever_is_read_at_once(
    content: bytes, read_bytes: int, longest: int, limit: int
) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        found, position = [], 0
        while True:
            lines = read_lines(
                file.fileno(), position, read_bytes=read_bytes, longest=longest, unfinished=True
            )
            if not lines.bodies:
                break
            for piece in pieces(lines, position, limit):
                assert len(piece.bodies) <= limit
                found += piece.bodies
                assert os.pread(file.fileno(), piece.end - position, position)
                position = piece.end
    assert position == len(content)
    assert max(map(len, found), default=0) <= longest
    assert b"".join(found) == content.replace(b"\n", b"")


@settings(deadline=None)
@given(CONTENT, st.lists(st.integers(0, 60), max_size=5))
def test_a_stream_gives_its_lines_whatever_it_comes_in(content: bytes, cuts: list[int]) -> None:
    buffer = LineBuffer(1000)
    found = []
    for start, stop in _spans(len(content), cuts):
        found += buffer.feed(content[start:stop])
    assert [*found, buffer.take_rest()] == content.split(b"\n")


@settings(deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5), st.integers(1, 30))
def test_any_stream_of_bytes_is_some_syslog_messages_within_bounds(
    content: bytes, cuts: list[int], limit: int
) -> None:
    framing = SyslogFraming(limit)
    found = []
    for start, stop in _spans(len(content), cuts):
        found += framing.feed(content[start:stop])
    found += framing.finish()
    assert all(0 < len(message) <= limit for message in found)


def _spans(size: int, cuts: list[int]) -> list[tuple[int, int]]:
    edges = sorted({0, size, *(cut for cut in cuts if cut < size)})
    return list(pairwise(edges))
