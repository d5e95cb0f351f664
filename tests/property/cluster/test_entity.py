"""Whatever the names are, an entity survives its node."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster.acl import Acl
from headrace.cluster.broker import BrokerConfig, BrokerRecord, Endpoint
from headrace.cluster.credential import ScramCredential
from headrace.cluster.entity import decode_entity, encode_entity, entity_path
from headrace.cluster.feature import Feature
from headrace.cluster.journal import JournalDelete, JournalPut, encode_frame, read_frames
from headrace.cluster.quota import ClientQuota
from headrace.cluster.store import Node, check_path
from headrace.cluster.topic import PartitionRecord, TopicRecord

NAME = st.text(min_size=1, max_size=30)
IDS = st.integers(0, 2**31 - 1)
CONFIGS = st.dictionaries(NAME, st.text(max_size=20), max_size=4)
REPLICAS = st.lists(IDS, min_size=1, max_size=3).map(tuple)

PARTITION = st.builds(
    PartitionRecord,
    replicas=REPLICAS,
    leader=IDS,
    isr=REPLICAS,
    leader_epoch=IDS,
    partition_epoch=IDS,
)
ENTITY = st.one_of(
    st.builds(
        TopicRecord,
        name=NAME,
        topic_id=st.integers(0, 2**128 - 1).map(lambda number: UUID(int=number)),
        partitions=st.lists(PARTITION, min_size=1, max_size=4).map(tuple),
        configs=CONFIGS,
    ),
    st.builds(
        BrokerRecord,
        broker_id=IDS,
        endpoints=st.lists(st.builds(Endpoint, NAME, NAME, IDS, NAME), max_size=3).map(tuple),
        rack=st.none() | st.text(max_size=10),
    ),
    st.builds(BrokerConfig, broker_id=st.none() | IDS, configs=CONFIGS),
    st.builds(
        ClientQuota,
        entity=st.lists(
            st.tuples(st.sampled_from(["user", "client-id", "ip"]), st.none() | NAME),
            min_size=1,
            max_size=2,
        ).map(tuple),
        values=st.dictionaries(NAME, st.floats(0, 1e12), max_size=3),
    ),
    st.builds(
        ScramCredential,
        user=NAME,
        mechanism=NAME,
        salt=st.binary(max_size=32),
        stored_key=st.binary(max_size=64),
        server_key=st.binary(max_size=64),
        iterations=IDS,
    ),
    st.builds(Acl, *[NAME] * 7),
    st.builds(Feature, NAME, IDS),
)


@settings(deadline=None)
@given(ENTITY)
def test_an_entity_survives_its_node(entity):
    path = entity_path(entity)

    check_path(path)
    assert decode_entity(Node(path, encode_entity(entity), 0)) == entity


@settings(deadline=None)
@given(first=ENTITY, second=ENTITY)
def test_different_entities_have_different_nodes(first, second):
    same_key = (first.KIND, first.key()) == (second.KIND, second.key())

    assert (entity_path(first) == entity_path(second)) is same_key


OPERATION = st.one_of(
    st.builds(JournalPut, NAME, st.binary(max_size=100), IDS),
    st.builds(JournalDelete, NAME),
)


@settings(deadline=None)
@given(commits=st.lists(st.lists(OPERATION, max_size=4), max_size=5), tail=st.binary(max_size=40))
def test_frames_are_read_up_to_what_is_none(commits, tail):
    frames = [encode_frame(number, commit) for number, commit in enumerate(commits, 1)]

    found = list(read_frames(b"".join(frames) + tail, 0))

    assert [list(frame.operations) for frame in found] == commits
