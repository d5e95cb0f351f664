"""What can go wrong, as domain errors.

Rule 1: the layers below the broker raise these and know nothing of wire codes.
`broker/error_mapping.py` alone maps them to Kafka's codes, `console/app.py` to HTTP's.
Rule 2: `PeerError` means that what we were sent is wrong, `StorageError` that our disk is;
anything else that escapes is our own mistake.
Rule 3: the message is one sentence a user can act on: what, where, and what would be right.
"""

from collections.abc import Sequence


class HeadraceError(Exception):
    """The root of every error Headrace raises on purpose."""


class InvalidArgument(HeadraceError, ValueError):
    """A caller passed an argument that makes no sense."""


class ConfigError(HeadraceError, ValueError):
    """A configuration key or value that cannot be used."""


class PeerError(HeadraceError):
    """The bytes or the request of a peer are wrong; our state is untouched."""


class CorruptBatch(PeerError):
    """A record batch whose length, magic, CRC, counts or varints are wrong."""


class UnsupportedBatch(PeerError):
    """A record batch of an unsupported format or codec (magic 0 and 1, an unknown codec)."""


class BatchTooLarge(PeerError):
    """A record batch above max.message.bytes, or one that inflates past its bound."""


class TakesLong(BatchTooLarge):
    """A batch that inflates to so much more than was sent that it is opened apart from others."""


class RefusedRecords(PeerError):
    """A batch that is refused because of some of its records.

    Attributes:
        record_errors: number and reason of each such record, as far as they are known (KIP-467).
    """

    def __init__(self, message: str, record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.record_errors = tuple(record_errors)


class InvalidTimestamp(RefusedRecords):
    """A record timestamp outside message.timestamp.before/after.max.ms."""


class InvalidRecord(RefusedRecords):
    """A batch that this log cannot store: no key in a compacted topic, no records, or bytes that
    are not the records its head counts."""


class OffsetOutOfRange(PeerError):
    """An offset below the log start or past the end of the log."""


class OutOfOrderSequence(PeerError):
    """An idempotent producer's batch does not follow its last one."""


class UnknownProducer(PeerError):
    """A batch of a producer of which too little is known to take it: it must begin a new epoch."""


class InvalidProducerEpoch(PeerError):
    """A producer epoch older than one already seen: a zombie, fenced."""


class InvalidTransactionState(PeerError):
    """A transactional write or marker that does not fit the producer's transaction."""


class CoordinatorFenced(PeerError):
    """A transaction marker from a coordinator that has been replaced since: a zombie."""


class NotEnoughReplicas(PeerError):
    """A write with acks=all to a partition with fewer replicas in sync than it must have."""


class UnexpectedAppendOffset(PeerError):
    """A follower received a batch whose offset is below its log end."""


class StorageError(HeadraceError):
    """An I/O call failed. Its log directory goes offline, once; others go on."""


class DiskFull(StorageError):
    """No room on the disk, or in its owner's quota. Nothing of an append was kept; other work is
    repeated when there is room. The directory stays online."""


class LogDirectoryOffline(StorageError):
    """The directory was taken offline by an earlier failure; nothing in it is served or changed."""


class LogDirectoryLocked(StorageError):
    """Another process holds the directory."""


class CorruptLog(StorageError):
    """Bytes that were synced have a wrong checksum: this is damage, not a torn tail."""


class CorruptIndex(HeadraceError):
    """A damaged index file. Nothing is lost: it is rebuilt from its segment."""


class CorruptSnapshot(HeadraceError):
    """A damaged producer snapshot: use an older one and replay the log from there."""


class VersionConflict(HeadraceError):
    """A node of the cluster store is not at the expected version: read it and try again."""


class BrokerIdTaken(HeadraceError):
    """Another broker of the cluster runs under this id."""


class ReadOnlyTopic(PeerError):
    """A mirror topic takes records from its source alone."""


class NotLeader(PeerError):
    """This broker does not lead the partition: ask for the metadata again."""


class NotEnoughReplicasAfterAppend(PeerError):
    """A write with acks=all is in the leader's log, but too few replicas are in sync to keep it."""


class RequestTimedOut(PeerError):
    """What a request waits for did not happen before its timeout."""


class ServiceUnavailable(HeadraceError):
    """A service that others ask does not answer, or refuses whatever it is asked."""


class UncleanableLog(HeadraceError):
    """Compaction cannot read stored bytes. That log stays as it is; others go on.

    Not a `StorageError`: a producer can send a batch with a valid CRC around invalid records,
    and must not take a log directory offline with it.
    """


class CompactionStopped(HeadraceError):
    """A round of compaction was ended early. What it compacted so far stays so and does no harm."""


class LogClosed(HeadraceError):
    """The log was closed, or its partition deleted, during a call."""
