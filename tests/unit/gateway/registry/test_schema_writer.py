"""A leader's claims: one per term, and one after every write that went wrong."""

import json
from typing import Any

import pytest

from headrace.client.error import ClientError
from headrace.client.settings import ClientSettings
from headrace.gateway.registry.error import RegistryError
from headrace.gateway.registry.state.record import Record, mode_record, schema_record
from headrace.gateway.registry.state.registry_state import LogRecord, Outcome, RegistryState
from headrace.gateway.registry.state.stored_schema import StoredSchema
from headrace.gateway.registry.store import schema_writer
from headrace.gateway.registry.store.schema_tail import read_claim
from headrace.gateway.registry.store.schema_writer import NotLeading, SchemaWriter
from headrace.model.ids import TopicPartition
from headrace.schema.schema import SchemaType


class Topic:
    """Stands for the cluster and for the tail that reads it.

    Attributes:
        claims: what each record said of its writer's claim; a claim itself has `=` before it.
    """

    def __init__(self) -> None:
        self.claims: list[bytes] = []
        self.failure: ClientError | None = None
        self.readable = True
        self.result = Outcome.APPLIED

    def writer(self, *_: Any) -> Any:
        topic = self

        class Writer:
            def write(self, rows: Any) -> None:
                if topic.failure is not None:
                    raise topic.failure
                topic.claims += [each[0]["value"] for each in rows.column("headers").to_pylist()]

            def flush(self) -> None: ...

            def abandon(self) -> None: ...

            @property
            def written(self) -> Any:
                return {TopicPartition("_schemas", 0): self}

            @property
            def last_offset(self) -> int:
                return len(topic.claims) - 1

        return Writer()

    @property
    def offset(self) -> int:
        return len(self.claims)

    def wait_for(self, *_: Any) -> bool:
        return self.readable

    def outcome(self, _: int) -> Outcome:
        return self.result

    def read(self, step: Any) -> Any:
        return step(RegistryState())


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = Topic()
    monkeypatch.setattr(schema_writer, "Writer", topic.writer)
    return topic


def test_a_leader_claims_once_per_term_and_after_every_failure(topic: Topic) -> None:
    tail: Any = topic
    writer = SchemaWriter(ClientSettings.of({"bootstrap.servers": "a:1"}), "_schemas", tail)
    records = [mode_record(None, "READONLY")]

    def claims_anew() -> bool:
        before = len(topic.claims)
        writer.lead("term")
        return [each[:1] for each in topic.claims[before:]] == [b"="]

    assert claims_anew()
    writer.append(records)
    assert topic.claims == [b"=0", b"0"]
    assert not claims_anew()

    topic.failure = ClientError("no answer")
    with pytest.raises(RegistryError, match="not written"):
        writer.append(records)
    topic.failure = None
    assert claims_anew()
    assert not claims_anew()

    topic.readable = False
    with pytest.raises(RegistryError, match="read back in time"):
        writer.append(records)
    with pytest.raises(RegistryError, match="read back in time"):
        writer.lead("term")
    topic.readable = True
    assert claims_anew()

    for outcome, error in (
        (Outcome.LATE, NotLeading),
        (Outcome.DUPLICATE_ID, RegistryError),
        (Outcome.UNREADABLE, RegistryError),
    ):
        topic.result = outcome
        with pytest.raises(error):
            writer.append(records)
        topic.result = Outcome.APPLIED
        assert claims_anew()
    writer.append(records)
    assert topic.claims[-1] == str(len(topic.claims) - 2).encode()


class ReadTopic(Topic):
    """A topic whose records are read by any number of states.

    Attributes:
        log: what is in the topic; offsets are those that a copy at lower offsets has.
        followers: states of other instances, which read every record, too.
    """

    def __init__(self, log: list[LogRecord], *followers: RegistryState) -> None:
        super().__init__()
        self.log = list(log)
        self.state = RegistryState()
        self.followers = followers
        self.outcomes: list[Outcome] = [self.state.apply(each) for each in log]

    def writer(self, *_: Any) -> Any:
        topic = self

        class Writer:
            def write(self, rows: Any) -> None:
                for row in rows.to_pylist():
                    headers = [
                        {"key": each["key"].encode(), "value": each["value"]}
                        for each in row["headers"]
                    ]
                    claim, is_claim = read_claim(headers)
                    record = LogRecord(
                        len(topic.outcomes), row["key"], row["value"], 0, claim, is_claim
                    )
                    topic.log.append(record)
                    topic.outcomes.append(topic.state.apply(record))
                    for each in topic.followers:
                        each.apply(record)

            def flush(self) -> None: ...

            def abandon(self) -> None: ...

            @property
            def written(self) -> Any:
                return {TopicPartition("_schemas", 0): self}

            @property
            def last_offset(self) -> int:
                return len(topic.outcomes) - 1

        return Writer()

    @property
    def offset(self) -> int:
        return len(self.outcomes)

    def outcome(self, offset: int) -> Outcome:
        return self.outcomes[offset]

    def read(self, step: Any) -> Any:
        return step(self.state)

    def compacted(self) -> list[LogRecord]:
        """Return the last record of every key, tombstones left out."""
        return [each for each in {each.key: each for each in self.log}.values() if each.value]


def leader(topic: ReadTopic, monkeypatch: pytest.MonkeyPatch) -> SchemaWriter:
    monkeypatch.setattr(schema_writer, "Writer", topic.writer)
    tail: Any = topic
    return SchemaWriter(ClientSettings.of({"bootstrap.servers": "a:1"}), "_schemas", tail)


def version(subject: str, schema_id: int, text: str) -> Record:
    return schema_record(StoredSchema(subject, 1, schema_id, SchemaType.AVRO, text))


def test_a_claim_outlives_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    # A copy at lower offsets: its records have numbers far above the topic's end.
    old = LogRecord(0, b'{"keytype":"MODE","magic":0}', b'{"mode":"IMPORT"}', 0, 999_000)
    running = RegistryState()
    running.apply(old)
    first = ReadTopic([old], running)
    writer = leader(first, monkeypatch)
    for term in range(9):  # elections, and nothing else
        writer.lead(term)
    assert running.claim == 999_009

    second = ReadTopic(first.compacted(), running)
    writer = leader(second, monkeypatch)
    writer.lead("after a restart")
    writer.append([version("b", 1, '"int"')])
    assert second.state.claim == running.claim == 999_010
    assert [each.text for each in running.versions("b")] == ['"int"']
    assert running.max_id(".") == 1


def test_a_compacted_topic_passes_over_what_a_running_reader_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = RegistryState()
    topic = ReadTopic([], running)
    for term in range(2):
        leader(topic, monkeypatch).lead(term)
    number = running.claim - 1
    late = LogRecord(9, b'{"keytype":"MODE","magic":0}', b'{"mode":"READONLY"}', 0, number)
    fresh = RegistryState()
    for each in topic.compacted():
        fresh.apply(each)
    assert (running.apply(late), fresh.apply(late)) == (Outcome.LATE, Outcome.LATE)


def test_a_late_record_is_corrected_by_the_next_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = ReadTopic([])
    old = leader(topic, monkeypatch)
    old.lead("term 1")
    assert not old.must_correct()
    new = leader(topic, monkeypatch)
    new.lead("term 2")
    with pytest.raises(NotLeading):
        old.append([mode_record(None, "READONLY")])
    assert old.must_correct()
    new.lead("term 2")
    assert not new.must_correct()
    assert topic.state.modes == {}


@pytest.mark.parametrize("number", [-1, 10**18, True, "7", 1.5])
def test_a_kept_claim_that_is_no_number_changes_nothing(number: Any) -> None:
    state = RegistryState()
    value = json.dumps({"highestIds": {".": 7}, "claim": number}).encode()
    record = LogRecord(0, b'{"magic":0,"keytype":"NOOP"}', value)
    assert state.apply(record) is Outcome.UNREADABLE
    assert (state.claim, state.highest_claim, state.max_id(".")) == (-1, -1, 0)
