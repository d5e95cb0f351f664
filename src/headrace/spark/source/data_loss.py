"""Records that were deleted before they were read: retention, a deleted topic, a truncated log.

`failOnDataLoss` decides: fail, which is the default, or log a warning and continue with what is
left. No other code may ignore a loss.
"""

import logging

from headrace.model.error import HeadraceError

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
