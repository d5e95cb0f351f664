"""The spillable channel: memory first, and disk when the memory is full."""

from headrace.ingest.channel import Channel
from headrace.ingest.channels.file import FileChannel
from headrace.ingest.channels.memory import MemoryChannel
from headrace.ingest.channels.queue import CollectingTransaction
from headrace.ingest.error import ChannelFull
from headrace.ingest.event import EMPTY, EventBatch
from headrace.ingest.settings import Settings, number
from headrace.ingest.transaction import Transaction


class SpillableChannel(Channel):
    """A memory channel that puts events into a file channel when it is full.

    Once the disk has events, later events go there too until it is empty. A take reads the memory
    first and then the disk, oldest first in each. The events in memory are lost with the process,
    as in Flume; those on disk are not.
    """

    SETTINGS = (
        number("memoryCapacity", "How many events fit in memory.", 10_000),
        number("overflowCapacity", "How many more fit on disk.", 100_000_000),
        number("overflowTimeout", "Seconds to wait for memory before using the disk.", 3),
        number("byteCapacity", "How many bytes of bodies fit in memory.", None, minimum=1),
        number("byteCapacityBufferPercentage", "How much of it is for headers.", 20, maximum=99),
        number("avgEventSize", "Ignored.", 500),
        *(each for each in FileChannel.SETTINGS if each.name not in ("capacity",)),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        size = settings.number("transactionCapacity")
        memory = max(settings.number("memoryCapacity"), size)
        memory_texts = {
            "capacity": str(memory),
            "transactionCapacity": str(size),
            "keep-alive": str(settings.number("overflowTimeout")),
        }
        if settings.optional("byteCapacity") is not None:
            memory_texts["byteCapacity"] = settings.text("byteCapacity")
        self.memory = MemoryChannel(name, Settings.from_texts(MemoryChannel.SETTINGS, memory_texts))
        disk_texts = {
            each.name: settings.text(each.name)
            for each in FileChannel.SETTINGS
            if not each.prefix
            and each.name != "capacity"
            and settings.optional(each.name) is not None
        }
        disk_texts["capacity"] = str(max(settings.number("overflowCapacity"), size))
        for key, value in settings.below("encryption").items():
            disk_texts[f"encryption.{key}"] = value
        self.disk = FileChannel(name, Settings.from_texts(FileChannel.SETTINGS, _texts(disk_texts)))
        self.only_disk = settings.number("memoryCapacity") == 0
        self.only_memory = settings.number("overflowCapacity") == 0

    @property
    def size(self) -> int:
        return self.memory.size + self.disk.size

    @property
    def capacity(self) -> int:
        return self.memory.capacity + self.disk.capacity

    @property
    def transaction_capacity(self) -> int:
        return self.disk.transaction_capacity

    def start(self) -> None:
        self.memory.start()
        self.disk.start()

    def stop(self) -> None:
        self.memory.stop()
        self.disk.stop()

    def interrupt(self) -> None:
        self.memory.interrupt()
        self.disk.interrupt()

    def begin(self) -> "SpillableTransaction":
        return SpillableTransaction(self)

    @property
    def spills(self) -> bool:
        """Whether the next put goes to the disk."""
        return self.only_disk or (self.disk.size > 0 and not self.only_memory)


def _texts(values: dict[str, str]) -> dict[str, str]:
    """Return values as a user writes them."""
    return {
        key: value.lower() if value in ("True", "False") else value for key, value in values.items()
    }


class SpillableTransaction(CollectingTransaction):
    """Puts into memory or on disk; takes from memory, and from disk when the memory is empty."""

    def __init__(self, channel: SpillableChannel) -> None:
        super().__init__(channel)
        self._channel = channel
        self._memory: Transaction = channel.memory.begin()
        self._disk: Transaction = channel.disk.begin()
        self._taken = 0

    def _take(self, limit: int) -> EventBatch:
        channel = self._channel
        channel.counters.add("EventTakeAttemptCount")
        batch = EMPTY
        # A take that waits must wait on the channel that gets the next event.
        if not channel.only_disk and (channel.memory.size or not channel.disk.size):
            batch = self._memory.take(limit)
        if not len(batch) and (channel.only_disk or channel.disk.size):
            batch = self._disk.take(limit)
        self._taken += len(batch)
        return batch

    def _commit(self) -> None:
        if self._puts:
            self._commit_puts(EventBatch.join(self._puts))
        self._memory.commit()
        self._disk.commit()
        if self._taken:
            self._channel.counters.add("EventTakeSuccessCount", self._taken)

    def _commit_puts(self, batch: EventBatch) -> None:
        channel = self._channel
        channel.counters.add("EventPutAttemptCount", len(batch))
        target: Channel = channel.disk if channel.spills else channel.memory
        try:
            _put(target, batch)
        except ChannelFull:
            if target is channel.disk or channel.only_memory:
                raise
            _put(channel.disk, batch)
        channel.counters.add("EventPutSuccessCount", len(batch))

    def _rollback(self) -> None:
        self._memory.rollback()
        self._disk.rollback()


def _put(channel: Channel, batch: EventBatch) -> None:
    with channel.begin() as transaction:
        transaction.put(batch)
