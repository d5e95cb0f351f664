"""However the bytes of a client are cut, the borders of its frames are found."""

from hyperframe.frame import ContinuationFrame, DataFrame, HeadersFrame, PingFrame, SettingsFrame
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.kinesis.http2.frame_watch import PREFACE, FrameWatch

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


def test_a_greeting_is_unfinished_until_its_first_frame() -> None:
    watch = FrameWatch()
    watch.add(PREFACE)
    assert watch.is_unfinished
    watch.add(SettingsFrame(0).serialize())
    assert not watch.is_unfinished


def test_a_head_is_unfinished_until_its_last_continuation() -> None:
    watch = FrameWatch()
    watch.add(PREFACE + HEAD.serialize())
    assert (watch.is_unfinished, watch.head_bytes, watch.begun) == (True, 100, 1)
    watch.add(HEAD_END.serialize())
    assert (watch.is_unfinished, watch.begun) == (False, 1)


@given(st.lists(frames, min_size=1, max_size=8), st.data())
def test_any_cut_finds_the_same_frames(sent: list[list[HeadersFrame]], data: st.DataObject) -> None:
    text = PREFACE + b"".join(each.serialize() for group in sent for each in group)
    watch, at = FrameWatch(), 0
    while at < len(text):
        assert watch.is_unfinished or watch.begun
        size = data.draw(st.integers(1, 600))
        watch.add(text[at : at + size])
        at += size
    assert (watch.begun, watch.is_unfinished) == (len(sent), False)
    watch.add(HEAD.serialize()[:-1])
    assert watch.is_unfinished
