"""A registry on a log that never fails, and the words to talk to it."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions.effect import TransactionEffects, WriteMarkers
from headrace.transactions.error import TransactionError
from headrace.transactions.message import (
    AddPartitions,
    AddReply,
    Answer,
    EndReply,
    EndTransaction,
    InitProducerId,
    InitReply,
)
from headrace.transactions.record import Record
from headrace.transactions.registry import TransactionRegistry

NOW_MS = 1_700_000_000_000


@dataclass
class Coordinator:
    """Appends to a list, and keeps markers back until the test writes them."""

    next_id: Callable[[], ProducerId | None]
    now_ms: int = NOW_MS
    log: list[Record] = field(default_factory=list)
    markers: list[WriteMarkers] = field(default_factory=list)
    wall_minus_monotonic_ms: int = 0
    registry: TransactionRegistry = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.markers.clear()
        self.registry = TransactionRegistry(
            coordinator_epoch=3,
            take_id=self.next_id,
            now_ms=self.now_ms,
            wall_minus_monotonic_ms=lambda: self.wall_minus_monotonic_ms,
        )
        for effects in self.registry.load(self.log, self.now_ms):
            self.carry_out(effects)

    def carry_out(self, effects: TransactionEffects) -> list[Answer]:
        answers: list[Answer] = []
        while True:
            self.markers.extend(effects.markers)
            answers.extend(reply.answer for reply in effects.replies)
            if not effects.records:
                return answers
            self.log.extend(effects.records)
            effects = self.registry.adopt(effects, self.now_ms)

    def init(
        self, name: str = "pay", timeout_ms: int = 60_000, resume: tuple[int, int] | None = None
    ) -> InitReply:
        producer_id, epoch = resume or (-1, -1)
        event = InitProducerId(
            transactional_id=name,
            timeout_ms=timeout_ms,
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(epoch),
        )
        [answer] = self.carry_out(self.registry.init_producer_id(None, event, self.now_ms))
        assert isinstance(answer, InitReply)
        return answer

    def add(self, owner: InitReply | EndReply, *numbers: int, version: int = 0) -> TransactionError:
        event = AddPartitions(
            transactional_id="pay",
            producer_id=owner.producer_id,
            producer_epoch=owner.producer_epoch,
            partitions=frozenset(TopicPartition("orders", number) for number in numbers),
            client_version=version,
        )
        [answer] = self.carry_out(self.registry.add_partitions(None, event, self.now_ms))
        assert isinstance(answer, AddReply)
        return answer.error

    def end(self, owner: InitReply | EndReply, *, commit: bool, version: int = 0) -> EndReply:
        event = EndTransaction(
            transactional_id="pay",
            producer_id=owner.producer_id,
            producer_epoch=owner.producer_epoch,
            commit=commit,
            client_version=version,
        )
        [answer] = self.carry_out(self.registry.end_transaction(None, event, self.now_ms))
        assert isinstance(answer, EndReply)
        return answer

    def write_markers(self) -> list[WriteMarkers]:
        written, self.markers = self.markers, []
        for markers in written:
            self.carry_out(self.registry.markers_written(markers, markers.partitions, self.now_ms))
        return written

    def tick(self, after_ms: int) -> None:
        self.now_ms += after_ms
        for effects in self.registry.tick(self.now_ms):
            self.carry_out(effects)

    def state(self, name: str = "pay") -> str | None:
        metadata = self.registry.metadata(name)
        return None if metadata is None else metadata.state.label


@pytest.fixture
def coordinator() -> Coordinator:
    ids = itertools.count(1000)
    return Coordinator(next_id=lambda: ProducerId(next(ids)))
