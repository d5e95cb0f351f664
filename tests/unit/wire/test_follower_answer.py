"""The answer to a follower in step is a Fetch response like any other."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.fetch_response import (
    AbortedTransaction,
    DivergingEpoch,
    FetchPartitionResult,
    FetchTopicResult,
    pack_fetch_response,
    read_fetch_response,
)
from headrace.wire.follower_answer import (
    FollowerAnswer,
    pack_follower_answer,
    read_follower_answer,
)

VERSION = 17
TOPIC = UUID(int=11)

offsets = st.integers(-1, 2**63 - 1)
answers = st.builds(
    FollowerAnswer,
    correlation_id=st.integers(0, 2**31 - 1),
    session_id=st.integers(0, 2**31 - 1),
    topic_id=st.binary(min_size=16, max_size=16),
    partition=st.integers(0, 2**31 - 1),
    high_watermark=offsets,
    last_stable_offset=offsets,
    log_start_offset=offsets,
    records=st.binary(min_size=1, max_size=300),
)


def by_the_long_way(answer: FollowerAnswer) -> bytes:
    result = FetchPartitionResult(
        answer.partition,
        0,
        answer.high_watermark,
        answer.last_stable_offset,
        answer.log_start_offset,
        len(answer.records),
        bytes(answer.records),
    )
    topic = FetchTopicResult(None, UUID(bytes=answer.topic_id), [result])
    parts = pack_fetch_response(
        VERSION, answer.correlation_id, [topic], session_id=answer.session_id
    )
    return b"".join(parts)


@given(answers)
def test_it_is_the_same_bytes_as_the_long_way_makes(answer: FollowerAnswer) -> None:
    assert pack_follower_answer(answer) == by_the_long_way(answer)


@given(answers)
def test_it_is_read_as_it_was_packed(answer: FollowerAnswer) -> None:
    frame = memoryview(pack_follower_answer(answer))[4:]

    read = read_follower_answer(frame)

    assert read is not None
    assert read._replace(records=bytes(read.records)) == answer


@given(answers, st.data())
def test_a_damaged_answer_says_what_the_long_way_says_or_nothing(
    answer: FollowerAnswer, data: st.DataObject
) -> None:
    content = bytearray(pack_follower_answer(answer)[4:])
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    del content[data.draw(st.sampled_from([len(content), len(content) - 1, 70, 3])) :]

    read = read_follower_answer(memoryview(bytes(content)))

    if read is not None:
        assert by_the_long_way(read)[4:] == bytes(content)


def test_whatever_says_more_is_left_to_the_long_way() -> None:
    plain: FetchPartitionResult[bytes] = FetchPartitionResult(3, 0, 5, 5, 0, 4, b"abcd")
    others = [
        [plain._replace(error_code=6)],
        [plain._replace(aborted=[AbortedTransaction(1, 2)])],
        [plain._replace(preferred_read_replica=2)],
        [plain._replace(diverging_epoch=DivergingEpoch(1, 2))],
        [plain._replace(records_bytes=0, records=None)],
        [plain, plain._replace(partition=4)],
        [],
    ]
    for results in others:
        topic = FetchTopicResult(None, TOPIC, results)
        parts: list[bytes] = pack_fetch_response(VERSION, 1, [topic], session_id=7)
        content = b"".join(parts)[4:]

        assert read_fetch_response(VERSION, content, 5).session_id == 7
        assert read_follower_answer(memoryview(content)) is None
