"""Lines that are found all at once are those that are found one by one."""

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ingest.file.line_block import read_block
from headrace.ingest.file.line_file import read_lines

CONTENT = st.lists(
    st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b"\n\r", b"\xff\x00"]), max_size=60
).map(b"".join)


@settings(deadline=None)
@given(CONTENT, st.integers(0, 20), st.integers(1, 30), st.integers(1, 12), st.integers(1, 7))
def test_a_block_has_the_lines_of_its_bytes(
    content: bytes, position: int, read_bytes: int, longest: int, limit: int
) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        at = file.fileno(), position
        block = read_block(*at, read_bytes=read_bytes, longest=longest)
        lines = read_lines(*at, read_bytes=read_bytes, longest=longest)
    read = content[position : position + read_bytes]
    if block is None:
        parts = read.split(b"\n")
        assert len(parts) == 1 or max(map(len, parts)) > longest
        return
    assert block.bodies.to_list() == lines.without_returns()
    assert block.end == lines.end
    assert bytes(block.data) == lines.data
    found, reached = [], position
    for piece in block.pieces(limit):
        assert 0 < len(piece.bodies) <= limit
        assert piece.start == reached
        assert bytes(piece.data) == content[reached : piece.end]
        found += piece.bodies.to_list()
        reached = piece.end
    assert (found, reached) == (block.bodies.to_list(), block.end)
