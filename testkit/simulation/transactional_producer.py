"""A transactional producer of the seam simulator, which follows Kafka's protocol.

It finds its coordinator, takes over its id, writes to some partitions, and commits or aborts. With
KIP-890 a produce adds its partition to the transaction, and every transaction has an epoch of its
own. Like a client of Kafka it sends a request again while it may, aborts when a batch failed, and
begins with a new epoch when it does not know where it is.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.broker.config.internal_topic import TRANSACTION_STATE
from headrace.model.error import HeadraceError
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions.error import TransactionError
from headrace.transactions.message import AddPartitions, EndTransaction, InitProducerId
from headrace.transactions.metadata import CLASSIC_VERSION, EPOCH_BUMP_VERSION
from testkit.sample.batch import sample_batch
from testkit.simulation.seam_broker import SeamBroker
from testkit.simulation.seam_client import CLIENT, ClientHost
from testkit.simulation.transaction_ledger import Outcome, SeamTransaction
from testkit.simulation.virtual_call import CallLost, virtual_call
from testkit.simulation.virtual_loop import VirtualLoop

Result = TypeVar("Result")

_PATIENCE_MS = 400
_BACKOFF_SECONDS = 0.03
_TIMEOUT_MS = 1500
_TRIES = 4
_END_TRIES = 30
_KEYS = 4

_RETRIABLE = (
    TransactionError.COORDINATOR_LOAD_IN_PROGRESS,
    TransactionError.COORDINATOR_NOT_AVAILABLE,
    TransactionError.CONCURRENT_TRANSACTIONS,
    TransactionError.NOT_COORDINATOR,
)


class _Failed(Exception):
    """The transaction cannot be committed any more."""


class TransactionalProducer:
    """One producer, as a task on the clients' loop."""

    def __init__(
        self, host: ClientHost, number: int, names: list[TopicPartition], loop: VirtualLoop
    ) -> None:
        self._host = host
        self._name = f"t{number}"
        self._names = names
        self._loop = loop
        self._implicit = host.random.random() < 0.6
        self._producer_id = ProducerId(-1)
        self._epoch = ProducerEpoch(-1)
        self._sequences: dict[TopicPartition, int] = {}
        self._count = 0
        self.busy = True

    def start(self) -> None:
        self._loop.run(lambda: self._loop.create_task(self._run()))

    @property
    def _version(self) -> int:
        return EPOCH_BUMP_VERSION if self._implicit else CLASSIC_VERSION

    async def _run(self) -> None:
        random = self._host.random
        while not self._host.calm:
            await asyncio.sleep(random.randint(1, 80) / 1000)
            if self._producer_id < 0 and not await self._take_over():
                continue
            await self._transact()
        self.busy = False

    async def _take_over(self) -> bool:
        event = InitProducerId(transactional_id=self._name, timeout_ms=_TIMEOUT_MS)
        reply = await self._ask(lambda peer: peer.transactions.init_producer_id(event))
        if reply is None or reply.error is not TransactionError.NONE:
            return False
        self._adopt(reply.producer_id, reply.producer_epoch)
        self._host.say(self._name, f"is producer {self._producer_id} in epoch {self._epoch}")
        return True

    def _adopt(self, producer_id: ProducerId, epoch: ProducerEpoch) -> None:
        self._producer_id, self._epoch = producer_id, epoch
        self._sequences.clear()

    def _forget(self) -> None:
        self._producer_id = ProducerId(-1)

    async def _transact(self) -> None:
        random = self._host.random
        self._count += 1
        transaction = self._host.ledger.begin(f"transaction {self._count} of {self._name}")
        try:
            for _ in range(random.randint(1, 3)):
                await self._write(transaction, random.choice(self._names))
        except _Failed as failed:
            self._host.say(self._name, f"gives up {transaction.name}: {failed}")
            transaction.outcome = Outcome.ABORTED
        if random.random() < 0.05:
            # It dies, and comes back: what it has begun is aborted.
            transaction.outcome = Outcome.ABORTED
            self._forget()
            return
        commit = transaction.outcome is Outcome.OPEN and random.random() < 0.7
        failed = transaction.outcome is Outcome.ABORTED
        await self._end(transaction, commit=commit)
        if failed and not self._implicit:
            # Which batches are in the log is open: the next ones need a new epoch (KIP-360).
            self._forget()

    # -- records

    async def _write(self, transaction: SeamTransaction, name: TopicPartition) -> None:
        random = self._host.random
        start = len(transaction.values)
        values = [
            f"{self._name}-{self._count}-{start + each}".encode()
            for each in range(random.choice([1, 2]))
        ]
        self._host.ledger.sends(transaction, values)
        if not self._implicit:
            await self._add(name)
        sequence = self._sequences.get(name, 0)
        batch = sample_batch(
            *values,
            keys=[f"k{random.randrange(_KEYS)}".encode() for _ in values],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            sequence=sequence,
            transactional=True,
        )
        problem: object = "no leader"
        for _ in range(_TRIES):
            leaders = [each for each in self._host.members.values() if each.led(name)]
            if leaders:
                problem = await self._call(
                    random.choice(leaders), lambda peer: self._produce(peer, name, batch, values)
                )
            if problem is None:
                self._sequences[name] = sequence + len(values)
                return
            await asyncio.sleep(_BACKOFF_SECONDS)
        raise _Failed(f"{values}: {problem}")

    async def _add(self, name: TopicPartition) -> None:
        event = self._partition_event(name)
        for _ in range(_TRIES):
            reply = await self._ask(lambda peer: peer.transactions.add_partitions(event))
            if reply is not None and reply.error is TransactionError.NONE:
                return
            if reply is not None and reply.error not in _RETRIABLE:
                raise _Failed(reply.error.name)
            await asyncio.sleep(_BACKOFF_SECONDS)
        raise _Failed("the coordinator does not add the partition")

    def _partition_event(self, name: TopicPartition) -> AddPartitions:
        return AddPartitions(
            transactional_id=self._name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            partitions=frozenset((name,)),
            client_version=self._version,
        )

    async def _produce(
        self, peer: SeamBroker, name: TopicPartition, batch: bytes, values: list[bytes]
    ) -> str | None:
        """Do what the handler of Produce does; return what is wrong."""
        refused = await peer.transactions.joined(
            self._partition_event(name), implicit=self._implicit
        )
        partition, history = peer.led(name), self._host.history
        if refused or partition is None:
            return str(refused)
        history.sends(peer, name, values)
        try:
            appended = partition.append(batch, strict_start=self._implicit, acks_all=True)
            if not appended.duplicate:
                self._host.say(f"broker {peer.broker_id}", f"appended {values} of {self._name}")
                history.accepts(peer, name)
            await peer.safe(partition, appended.last_offset + 1)
        except HeadraceError as error:
            return str(error)
        if peer.led(name) is partition:
            history.acknowledges(peer, name, appended.base_offset, values)
        return None

    # -- the end

    async def _end(self, transaction: SeamTransaction, *, commit: bool) -> None:
        transaction.outcome = Outcome.COMMITTING if commit else Outcome.ABORTED
        event = EndTransaction(
            transactional_id=self._name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            commit=commit,
            client_version=self._version,
        )
        self._host.say(self._name, f"ends {transaction.name}, commit: {commit}")
        for _ in range(_END_TRIES):
            reply = await self._ask(lambda peer: peer.transactions.end_transaction(event))
            if reply is not None and reply.error is TransactionError.NONE:
                if commit and transaction.values:
                    transaction.outcome = Outcome.COMMITTED
                self._host.say(self._name, f"ended {transaction.name}, commit: {commit}")
                if self._implicit:
                    self._adopt(reply.producer_id, reply.producer_epoch)
                return
            if reply is not None and reply.error not in _RETRIABLE:
                self._host.say(self._name, f"cannot end {transaction.name}: {reply.error.name}")
                break
            await asyncio.sleep(_BACKOFF_SECONDS)
        self._forget()

    # -- requests

    async def _ask(self, work: Callable[[SeamBroker], Awaitable[Result]]) -> Result | None:
        """Ask the coordinator; None when there is none, or no answer."""
        serving = [each for each in self._host.members.values() if each.serves]
        if not serving:
            return None
        peer = self._host.random.choice(serving)
        topic = peer.topics.by_name(TRANSACTION_STATE)
        if topic is not None:
            leader = self._host.members.get(topic.record.partitions[0].leader)
            peer = peer if leader is None else leader
        return await self._call(peer, work, None)

    async def _call(
        self,
        peer: SeamBroker,
        work: Callable[[SeamBroker], Awaitable[Result]],
        lost: object = "no answer",
    ) -> Result:
        try:
            return await virtual_call(self._host, CLIENT, self._loop, peer, work, _PATIENCE_MS)
        except CallLost:
            return lost  # type: ignore[return-value]
