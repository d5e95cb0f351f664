"""However the bytes of a client are cut, the borders of its frames are found."""

from itertools import cycle

import pytest
from h2.exceptions import FrameTooLargeError
from hyperframe.frame import ContinuationFrame, DataFrame, HeadersFrame, PingFrame, SettingsFrame
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.gateway.http.http2.frame_watch import PREFACE, FrameWatch

HEAD = HeadersFrame(1, data=b"h" * 100)
HEAD_END = ContinuationFrame(1, data=b"c" * 50, flags=["END_HEADERS"])
WHOLE_HEAD = HeadersFrame(3, data=b"h" * 7, flags=["END_HEADERS"])
frames = st.sampled_from(
    [
        [SettingsFrame(0)],
        [PingFrame(0, opaque_data=b"12345678")],
        [DataFrame(1, data=b"d" * 1000)],
        [WHOLE_HEAD],
        [HEAD, ContinuationFrame(1, data=b""), HEAD_END],
    ]
)


def taken(watch: FrameWatch, data: bytes) -> bytes:
    watch.add(data)
    return b"".join(iter(watch.next_piece, None))


def test_a_preface_is_unfinished_until_its_first_frame() -> None:
    watch = FrameWatch()
    taken(watch, PREFACE)
    assert watch.is_unfinished
    taken(watch, SettingsFrame(0).serialize())
    assert not watch.is_unfinished


def test_a_head_is_unfinished_until_its_last_continuation() -> None:
    watch = FrameWatch()
    taken(watch, PREFACE + HEAD.serialize())
    assert (watch.is_unfinished, watch.head_bytes, watch.begun) == (True, 100, 1)
    taken(watch, HEAD_END.serialize())
    assert (watch.is_unfinished, watch.begun) == (False, 1)


def test_pieces_end_where_frames_end() -> None:
    watch = FrameWatch()
    sent = [PREFACE, SettingsFrame(0).serialize(), WHOLE_HEAD.serialize()]
    watch.add(b"".join(sent) + HEAD.serialize()[:4])
    assert list(iter(watch.next_piece, None)) == sent
    assert (watch.kind, watch.is_unfinished) == (HeadersFrame.type, True)


def test_a_frame_that_is_too_large_is_refused_at_its_header() -> None:
    watch = FrameWatch()
    taken(watch, PREFACE)
    watch.add((16_385).to_bytes(3) + bytes(6))
    with pytest.raises(FrameTooLargeError):
        watch.next_piece()


@settings(deadline=None)
@given(
    st.lists(frames, min_size=1, max_size=8),
    st.lists(st.integers(1, 600), min_size=1, max_size=20),
)
def test_any_cut_finds_the_same_frames(sent: list[list[HeadersFrame]], sizes: list[int]) -> None:
    text = PREFACE + b"".join(each.serialize() for group in sent for each in group)
    watch, at, found = FrameWatch(), 0, b""
    for size in cycle(sizes):
        found += taken(watch, text[at : at + size])
        at += size
        if at >= len(text):
            break
    assert (found, watch.begun, watch.is_unfinished) == (text, len(sent), False)
    taken(watch, HEAD.serialize()[:-1])
    assert watch.is_unfinished
