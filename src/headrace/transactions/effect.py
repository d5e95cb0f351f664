"""What an event asks of the broker: a record to append, replies to release, markers to write.

The order is the contract, the same as in `headrace.groups.effect`. The registry has not adopted the
new state when it returns a `TransactionEffects` with records. The broker appends them and then
calls `TransactionRegistry.adopt`, which adopts the state and returns what is due next. When the
append failed it calls `TransactionRegistry.reject`, which forgets the state. Replies leave only
after `adopt`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions.message import Answer
from headrace.transactions.metadata import TransactionMetadata
from headrace.transactions.record import Record

Token = object
"""Names a request that waits for its reply. The broker chooses it, the state only returns it."""


@dataclass(frozen=True, slots=True)
class TransactionDelivery:
    """The answer to the request that came with `token`."""

    token: Token
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarkers:
    """Append a commit or abort marker of this producer to each partition.

    Report back with `TransactionRegistry.markers_written` (also for partitions that no longer
    exist) and `markers_failed`. Writing a marker twice is harmless: the second closes nothing.
    `ending` numbers this end, to distinguish it from others of the same producer and epoch.
    """

    ending: int
    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: int
    commit: bool
    client_version: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEffects:
    """Append `records` in one batch, call `adopt`, then release `replies`; without records, just
    release them.

    `markers` never stand beside records. `transactional_id` names the id whose change they are.
    `fenced` is the open transaction that the change aborts, which its producer did not ask for.
    """

    transactional_id: str = ""
    records: Sequence[Record] = ()
    replies: Sequence[TransactionDelivery] = ()
    markers: Sequence[WriteMarkers] = ()
    fenced: TransactionMetadata | None = None


NOTHING = TransactionEffects()
