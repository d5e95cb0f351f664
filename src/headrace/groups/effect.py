"""What an event asks of the broker: records to append, then replies to release.

The order is the contract. A reply may leave only after the records beside it are in the log, as
durable as the log is asked to be. The registry has not adopted the new state when it returns a
`GroupEffects` with records: `GroupRegistry.adopt` adopts it, `GroupRegistry.reject` forgets it. So
an append that fails leaves nothing to undo.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.groups.record import GroupRecord
from headrace.groups.request import GroupReply
from headrace.model.ids import ProducerEpoch, ProducerId

Token = object
"""Names a request that waits for its reply: the broker chooses it, the state hands it back."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A reply, and the request that it goes to."""

    token: Token
    reply: GroupReply


@dataclass(frozen=True, slots=True)
class Producer:
    """Whose transaction a commit of offsets belongs to (KIP-98)."""

    producer_id: ProducerId
    epoch: ProducerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEffects:
    """Append `records`, in this order, then release `replies`. They are one batch, unless they are
    too large for that.

    Attributes:
        producer: whose transaction the batch is part of.
        requested: a request has asked for the records, and not a timer, a sweep or a member that
            leaves. They may be refused when they are too large.
    """

    records: Sequence[GroupRecord] = ()
    replies: Sequence[Delivery] = ()
    producer: Producer | None = None
    requested: bool = False


class GroupOutput:
    """The records and replies of one event, collected while a state machine works on it.

    Attributes:
        wall_skew_ms: what to add to the event's time for a timestamp in a record. Deadlines run by
            a clock that is never set; records are read by other brokers and other programs.
    """

    def __init__(self, wall_skew_ms: int = 0) -> None:
        self.wall_skew_ms = wall_skew_ms
        self.records: list[GroupRecord] = []
        self.replies: list[Delivery] = []

    def append(self, record: GroupRecord) -> None:
        self.records.append(record)

    def reply(self, token: Token, reply: GroupReply) -> None:
        self.replies.append(Delivery(token, reply))
