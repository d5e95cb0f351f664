"""What a mirror topic answers to a marker of this cluster's coordinators."""

from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import HeadraceError, InvalidProducerEpoch, ReadOnlyTopic
from headrace.model.ids import TopicPartition


def mirror_marker_error(
    name: TopicPartition, log: PartitionLog, producer_id: int, producer_epoch: int
) -> HeadraceError:
    """Return why a marker is not written to a partition of a mirror topic.

    InvalidProducerEpoch says that there is nothing to end: clients cannot write to a mirror, so the
    coordinator goes on without this partition. ReadOnlyTopic lets it retry, because this producer
    has a transaction open here. Either it is one of the source's, where producers have the same
    ids; it ends by itself. Or the topic was promoted, and this broker, which has become the leader,
    has not read of that yet: without its marker, what was committed could never be read.

    Args:
        producer_epoch: the marker's: that of the transaction, or the next one (KIP-890).
    """
    epochs = (producer_epoch, producer_epoch - 1)
    if any(log.has_open_transaction(producer_id, each) for each in epochs):
        return ReadOnlyTopic(
            f"{name.topic} is a mirror, and producer {producer_id} has a transaction open in it: "
            "the marker waits until that has ended, or the topic is promoted"
        )
    return InvalidProducerEpoch(f"{name.topic} is a mirror, without own transactions")
