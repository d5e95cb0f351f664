"""Records that were deleted before they were read: retention, a deleted topic, a truncated log.

`failOnDataLoss` decides: fail, which is the default, or log a warning and continue with what is
left. No other code may ignore a loss.
"""

import logging
from collections.abc import Iterator, Mapping

from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition

_LOG = logging.getLogger("headrace.spark")


class DataLoss(HeadraceError):
    """Records are gone that were not read, and failOnDataLoss is true."""


def report_loss(what: str, *, fail: bool, option: str = "failOnDataLoss") -> None:
    """Report a loss, described in one sentence without its full stop.

    Args:
        option: what the format calls the option that `fail` is of.

    Raises:
        DataLoss: when `fail` is set.
    """
    if fail:
        raise DataLoss(
            f"{what}; some records may have been missed. To go on without them, set the option "
            f"{option} to false"
        )
    _LOG.warning("records_missed reason=%r %s=false", what, option)


def created_again(topic: str) -> str:
    """Return a sentence for a topic that has another id than it had."""
    return (
        f"topic {topic} was deleted, and created again with other records (if it has the same ones,"
        " at the same offsets, set the option acceptNewTopicIds to true for one start)"
    )


def losses_between(
    begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> Iterator[str]:
    """Yield a sentence for each partition that is gone at the end of a micro-batch, or ends before
    the micro-batch begins.

    >>> list(losses_between({TopicPartition("clicks", 0): 5}, {TopicPartition("clicks", 0): 3}))
    ['clicks-0 was read up to 5 and now ends at 3']
    """
    for each in sorted(begin.keys() - end.keys()):
        yield f"{each} is gone"
    for each, at in end.items():
        if at < begin.get(each, at):
            yield f"{each} was read up to {begin[each]} and now ends at {at}"
