"""Golden bytes made by Apache Kafka 4.2's own serializers (GroupCoordinatorRecordSerde)."""

from uuid import UUID

import pytest

from headrace.groups.record import (
    ClassicMetadata,
    CurrentAssignment,
    CurrentAssignmentRecord,
    GroupEpoch,
    GroupEpochRecord,
    GroupMetadata,
    GroupMetadataRecord,
    GroupRecord,
    MemberMetadata,
    MemberMetadataRecord,
    MemberProtocol,
    MemberState,
    OffsetCommitRecord,
    PartitionMetadataRecord,
    RegexRecord,
    ResolvedRegex,
    StoredMember,
    StoredOffset,
    TargetEpochRecord,
    TargetMemberRecord,
)
from headrace.groups.record_codec import decode, encode
from headrace.groups.topic import TopicIdPartition
from headrace.model.error import CorruptLog

TOPIC = UUID("11121314-1516-1718-2122-232425262728")
OTHER = UUID("01020304-0506-0708-3132-333435363738")
NOW_MS = 1_700_000_000_000

OFFSET_KEY = "00010001670006636c69636b7300000003"
GROUP_KEY = "0002000167"


def offset(value: StoredOffset | None) -> OffsetCommitRecord:
    return OffsetCommitRecord(group="g", topic="clicks", partition=3, value=value)


def committed(**changes: object) -> StoredOffset:
    fields = {"offset": 42, "metadata": "méta", "commit_timestamp_ms": NOW_MS, **changes}
    return StoredOffset(**fields)  # type: ignore[arg-type]


def group(**member_changes: object) -> GroupMetadataRecord:
    fields = {
        "member_id": "m-1",
        "instance_id": "i",
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 300_000,
        "session_timeout_ms": 45_000,
        "subscription": b"\1\2",
        "assignment": b"\3",
        **member_changes,
    }
    member = StoredMember(**fields)  # type: ignore[arg-type]
    return GroupMetadataRecord(
        group="g",
        value=GroupMetadata(
            protocol_type="consumer",
            generation=5,
            protocol="range",
            leader="m-1",
            state_timestamp_ms=NOW_MS,
            members=(member,),
        ),
    )


WRITTEN: dict[str, tuple[str, str | None, GroupRecord]] = {
    "offset": (
        OFFSET_KEY,
        "0004000000000000002a00000007066dc3a974610000018bcfe56800"
        "01001011121314151617182122232425262728",
        offset(committed(leader_epoch=7, topic_id=TOPIC)),
    ),
    "offset without topic id": (
        OFFSET_KEY,
        "0004000000000000002a00000007010000018bcfe5680000",
        offset(committed(leader_epoch=7, metadata="")),
    ),
    "offset with its own expiry": (
        OFFSET_KEY,
        "0001000000000000002a00056dc3a974610000018bcfe568000000018bcfe6eea0",
        offset(committed(expire_timestamp_ms=1_700_000_100_000)),
    ),
    "offset tombstone": (OFFSET_KEY, None, offset(None)),
    "classic group": (
        GROUP_KEY,
        "00030008636f6e73756d657200000005000572616e676500036d2d310000018bcfe568000000000100036d2d"
        "31000169000163000a2f3132372e302e302e31000493e00000afc80000000201020000000103",
        group(),
    ),
    "empty classic group": (
        GROUP_KEY,
        "0003000000000000ffffffffffffffffffffffff00000000",
        GroupMetadataRecord(
            group="g",
            value=GroupMetadata(
                protocol_type="",
                generation=0,
                protocol=None,
                leader=None,
                state_timestamp_ms=-1,
                members=(),
            ),
        ),
    ),
    "group epoch": (
        "0003000167",
        "000000000009010008ffffffffffffffb3",
        GroupEpochRecord(group="g", value=GroupEpoch(epoch=9, metadata_hash=-77)),
    ),
    "group epoch without hash": (
        "0003000167",
        "00000000000900",
        GroupEpochRecord(group="g", value=GroupEpoch(epoch=9, metadata_hash=0)),
    ),
    "partition metadata tombstone": (
        "0004000167",
        None,
        PartitionMetadataRecord(group="g", value=None),
    ),
    "member": (
        "000500016700036d2d31",
        "00000269000263032f68030261026204782e2a000493e008756e69666f726d00",
        MemberMetadataRecord(
            group="g",
            member_id="m-1",
            value=MemberMetadata(
                instance_id="i",
                rack_id=None,
                client_id="c",
                client_host="/h",
                subscribed_topic_names=("a", "b"),
                subscribed_topic_regex="x.*",
                rebalance_timeout_ms=300_000,
                server_assignor="uniform",
            ),
        ),
    ),
    "member that uses the classic protocol": (
        "000500016700016d",
        "00000002720263032f680202740000000005000100120100000007020672616e6765040102030000",
        MemberMetadataRecord(
            group="g",
            member_id="m",
            value=MemberMetadata(
                instance_id=None,
                rack_id="r",
                client_id="c",
                client_host="/h",
                subscribed_topic_names=("t",),
                subscribed_topic_regex=None,
                rebalance_timeout_ms=5,
                server_assignor=None,
                classic=ClassicMetadata(
                    session_timeout_ms=7, protocols=(MemberProtocol("range", b"\1\2\3"),)
                ),
            ),
        ),
    ),
    "target epoch": ("0006000167", "00000000000900", TargetEpochRecord(group="g", value=9)),
    "target of a member": (
        "000700016700036d2d31",
        "000003010203040506070831323334353637380200000000001112131415161718212223242526272803000000"
        "01000000020000",
        TargetMemberRecord(
            group="g",
            member_id="m-1",
            value=frozenset(
                {
                    TopicIdPartition(OTHER, 0),
                    TopicIdPartition(TOPIC, 1),
                    TopicIdPartition(TOPIC, 2),
                }
            ),
        ),
    ),
    "current assignment": (
        "000800016700036d2d31",
        "00000000000900000008010211121314151617182122232425262728020000000100021112131415161718212223"
        "242526272802000000020000",
        CurrentAssignmentRecord(
            group="g",
            member_id="m-1",
            value=CurrentAssignment(
                member_epoch=9,
                previous_member_epoch=8,
                state=MemberState.UNREVOKED_PARTITIONS,
                assigned=frozenset({TopicIdPartition(TOPIC, 1)}),
                pending_revocation=frozenset({TopicIdPartition(TOPIC, 2)}),
            ),
        ),
    ),
    "regular expression": (
        "00100001670003782e2a",
        "000003037861037862000000000000000c0000018bcfe5680000",
        RegexRecord(
            group="g",
            regex="x.*",
            value=ResolvedRegex(topics=("xa", "xb"), version=12, timestamp_ms=NOW_MS),
        ),
    ),
}

ALSO_READ: dict[str, tuple[str, str, GroupRecord]] = {
    "offset key 0": (
        "00000001670006636c69636b7300000003",
        "0000000000000000002a00056dc3a974610000018bcfe56800",
        offset(committed()),
    ),
    "offset value 0": (
        OFFSET_KEY,
        "0000000000000000002a00056dc3a974610000018bcfe56800",
        offset(committed()),
    ),
    "offset value 2": (
        OFFSET_KEY,
        "0002000000000000002a00056dc3a974610000018bcfe56800",
        offset(committed()),
    ),
    "offset value 3": (
        OFFSET_KEY,
        "0003000000000000002a0000000700056dc3a974610000018bcfe56800",
        offset(committed(leader_epoch=7)),
    ),
    "group value 4": (
        GROUP_KEY,
        "000409636f6e73756d6572000000050672616e6765046d2d310000018bcfe5680002046d2d31026902630b2f31"
        "32372e302e302e31000493e00000afc803010202030000",
        group(),
    ),
    "group value 2": (
        GROUP_KEY,
        "00020008636f6e73756d657200000005000572616e676500036d2d310000018bcfe568000000000100036d2d31"
        "000163000a2f3132372e302e302e31000493e00000afc80000000201020000000103",
        group(instance_id=None),
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_writes_what_kafka_writes(name: str) -> None:
    key, value, record = WRITTEN[name]

    encoded = encode(record)

    assert encoded == (bytes.fromhex(key), None if value is None else bytes.fromhex(value))


@pytest.mark.parametrize("name", WRITTEN | ALSO_READ)
def test_reads_what_kafka_writes(name: str) -> None:
    key, value, record = (WRITTEN | ALSO_READ)[name]

    decoded = decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))

    assert decoded == record


def test_group_without_rebalance_timeout_takes_the_session_timeout() -> None:
    value = (
        "00000008636f6e73756d657200000005000572616e676500036d2d310000000100036d2d31000163000a2f3132"
        "372e302e302e310000afc80000000201020000000103"
    )

    record = decode(bytes.fromhex(GROUP_KEY), bytes.fromhex(value))

    assert isinstance(record, GroupMetadataRecord)
    assert record.value is not None
    assert record.value.members[0].rebalance_timeout_ms == 45_000
    assert record.value.state_timestamp_ms == -1


def test_steps_over_the_records_of_share_groups() -> None:
    assert decode(bytes.fromhex("000b000167"), b"\0\0\0\0\0\1\0\0") is None


def test_a_member_state_of_the_future_is_unknown() -> None:
    _, value, _ = WRITTEN["current assignment"]
    assert value is not None
    raw = bytearray.fromhex(value)
    raw[10] = 99

    record = decode(bytes.fromhex("000800016700036d2d31"), bytes(raw))

    assert isinstance(record, CurrentAssignmentRecord)
    assert record.value is not None
    assert record.value.state is MemberState.UNKNOWN


def test_a_value_of_an_unknown_version_is_corrupt() -> None:
    with pytest.raises(CorruptLog, match="version 9"):
        decode(bytes.fromhex(OFFSET_KEY), bytes.fromhex("0009"))


def test_a_count_beyond_the_bytes_is_corrupt() -> None:
    with pytest.raises(CorruptLog, match="announced"):
        decode(bytes.fromhex("000700016700036d2d31"), bytes.fromhex("0000ffffffff0f"))


WITH_VALUE = {name: each for name, each in WRITTEN.items() if each[1] is not None}


@pytest.mark.parametrize("name", WITH_VALUE)
@pytest.mark.parametrize("version", [-1, 5])
def test_a_value_of_no_known_version_is_refused_in_every_record(name: str, version: int) -> None:
    key, value, _ = WITH_VALUE[name]
    assert value is not None
    wrong = version.to_bytes(2, "big", signed=True) + bytes.fromhex(value)[2:]

    with pytest.raises(CorruptLog, match=f"version {version} is not"):
        decode(bytes.fromhex(key), wrong)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, (_, _, record) in WITH_VALUE.items()
        if not isinstance(record, OffsetCommitRecord | GroupMetadataRecord)
    ],
)
def test_records_of_consumer_groups_have_one_version(name: str) -> None:
    key, value, _ = WITH_VALUE[name]
    assert value is not None

    with pytest.raises(CorruptLog, match="between 0 and 0"):
        decode(bytes.fromhex(key), b"\0\1" + bytes.fromhex(value)[2:])
