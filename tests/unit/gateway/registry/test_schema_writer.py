"""A leader's claims: one per term, and one after every write that went wrong."""

from typing import Any

import pytest

from headrace.client.error import ClientError
from headrace.client.settings import ClientSettings
from headrace.gateway.registry.error import RegistryError
from headrace.gateway.registry.state.record import mode_record
from headrace.gateway.registry.state.registry_state import Outcome, RegistryState
from headrace.gateway.registry.store import schema_writer
from headrace.gateway.registry.store.schema_writer import NotLeading, SchemaWriter
from headrace.model.ids import TopicPartition


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
