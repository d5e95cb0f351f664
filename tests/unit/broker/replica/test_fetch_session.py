"""Incremental fetch sessions (KIP-227), as a Java client would use them."""

from uuid import uuid4

from headrace.broker.replica.fetch_session import FetchSessions
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

MINUTE_MS = 60_000


def wanted(partition: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(partition, -1, offset, -1, -1, 1 << 20)


def fetch(
    session_id: int = 0,
    epoch: int = 0,
    *,
    clicks: dict[int, int] | None = None,
    forget: tuple[int, ...] = (),
) -> FetchRequest:
    """A fetch of partitions of clicks, each from an offset."""
    partitions = [wanted(number, offset) for number, offset in (clicks or {}).items()]
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        topics=[FetchTopic("clicks", None, partitions)] if partitions else [],
        session_id=session_id,
        session_epoch=epoch,
        forgotten=[ForgottenTopic("clicks", None, forget)] if forget else [],
    )


def offsets(sessions: FetchSessions, request: FetchRequest, now_ms: int = 0) -> dict[int, int]:
    admitted = sessions.admit(request, now_ms)
    assert not admitted.error
    return {item.requested.partition: item.requested.fetch_offset for item in admitted.partitions}


def opened(sessions: FetchSessions, now_ms: int = 0, partitions: int = 3) -> int:
    request = fetch(clicks={number: 0 for number in range(partitions)})
    return sessions.admit(request, now_ms).session_id


def test_a_full_fetch_opens_a_session() -> None:
    sessions = FetchSessions(10)
    assert opened(sessions) > 0
    assert len(sessions) == 1


def test_a_fetch_without_a_session_leaves_nothing_behind() -> None:
    sessions = FetchSessions(10)
    admitted = sessions.admit(fetch(0, -1, clicks={0: 5}), 0)
    assert admitted.session is None
    assert not admitted.incremental
    assert len(admitted.partitions) == 1
    assert len(sessions) == 0


def test_an_incremental_fetch_is_about_all_partitions_of_its_session() -> None:
    sessions = FetchSessions(10)
    session = opened(sessions)
    assert offsets(sessions, fetch(session, 1)) == {0: 0, 1: 0, 2: 0}


def test_changes_are_taken_over_added_and_forgotten() -> None:
    sessions = FetchSessions(10)
    session = opened(sessions)
    changed = fetch(session, 1, clicks={1: 7, 5: 9}, forget=(0,))
    assert offsets(sessions, changed) == {1: 7, 2: 0, 5: 9}
    assert offsets(sessions, fetch(session, 2)) == {1: 7, 2: 0, 5: 9}
    assert sessions.partition_count == 3


def test_an_unknown_session_is_an_error() -> None:
    admitted = FetchSessions(10).admit(fetch(77, 1), 0)
    assert admitted.error == ErrorCode.fetch_session_id_not_found


def test_a_wrong_epoch_is_an_error_and_does_no_harm() -> None:
    sessions = FetchSessions(10)
    session = opened(sessions)
    assert sessions.admit(fetch(session, 5), 0).error == ErrorCode.invalid_fetch_session_epoch
    assert not sessions.admit(fetch(session, 1), 0).error


def test_an_epoch_is_used_once() -> None:
    sessions = FetchSessions(10)
    session = opened(sessions)
    assert not sessions.admit(fetch(session, 1), 0).error
    assert sessions.admit(fetch(session, 1), 0).error == ErrorCode.invalid_fetch_session_epoch


def test_a_final_epoch_closes_the_session_and_still_fetches() -> None:
    sessions = FetchSessions(10)
    session = opened(sessions)
    assert offsets(sessions, fetch(session, -1, clicks={0: 3})) == {0: 3}
    assert len(sessions) == sessions.partition_count == 0


def test_a_full_fetch_with_the_id_of_a_session_replaces_it() -> None:
    sessions = FetchSessions(10)
    session = opened(sessions)
    renewed = sessions.admit(fetch(session, 0, clicks={0: 0}), 0)
    assert renewed.session_id not in (0, session)
    assert len(sessions) == sessions.partition_count == 1


def test_a_session_opened_by_names_does_not_speak_of_ids() -> None:
    sessions = FetchSessions(10)
    session = opened(sessions)
    admitted = sessions.admit(fetch(session, 1), 0, by_id=True)
    assert admitted.error == ErrorCode.fetch_session_topic_id_error


def test_topics_by_id_are_distinguished_by_id() -> None:
    topics = [FetchTopic(None, uuid4(), [wanted(0)]) for _ in range(2)]
    request = fetch()._replace(topics=topics)
    assert len(FetchSessions(10).admit(request, 0, by_id=True).partitions) == 2


def test_a_partition_that_was_answered_goes_to_the_end() -> None:
    sessions = FetchSessions(10)
    request = fetch(clicks={0: 0, 1: 0, 2: 0})
    admitted = sessions.admit(request, 0)
    assert admitted.session is not None
    admitted.session.rotate(admitted.partitions[0])
    assert list(offsets(sessions, fetch(admitted.session_id, 1))) == [1, 2, 0]


def test_when_all_slots_are_used_a_client_goes_on_without_a_session() -> None:
    sessions = FetchSessions(2)
    opened(sessions), opened(sessions)
    admitted = sessions.admit(fetch(clicks={0: 0}), MINUTE_MS)
    assert admitted.session is None
    assert len(admitted.partitions) == 1


def test_a_session_unused_for_minutes_makes_room() -> None:
    sessions = FetchSessions(2)
    first, second = opened(sessions), opened(sessions)
    sessions.admit(fetch(first, 1), MINUTE_MS)
    assert opened(sessions, 2 * MINUTE_MS) > 0
    assert sessions.admit(fetch(second, 1), 0).error == ErrorCode.fetch_session_id_not_found
    assert not sessions.admit(fetch(first, 2), 0).error


def test_partitions_of_all_sessions_together_are_bounded() -> None:
    sessions = FetchSessions(10, max_partitions=5)
    assert opened(sessions, partitions=3) > 0
    assert opened(sessions, partitions=3) == 0
    assert opened(sessions, partitions=2) > 0


def test_a_session_that_grows_past_the_bound_ends() -> None:
    sessions = FetchSessions(10, max_partitions=5)
    session = opened(sessions, partitions=3)
    grown = fetch(session, 1, clicks={number: 0 for number in range(10, 20)})
    assert sessions.admit(grown, 0).error == ErrorCode.fetch_session_id_not_found
    assert sessions.partition_count == 0
