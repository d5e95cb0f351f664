"""Records that went away before they were read: retention, a deleted topic, a log cut off.

`failOnDataLoss` decides: fail, which is the default, or tell it in the log and go on with what is
left. Nothing else may swallow a loss.
"""

import logging

from headrace.model.error import HeadraceError

_LOG = logging.getLogger("headrace.spark")


class DataLoss(HeadraceError):
    """The source was told to fail rather than to go on without some records."""


def report_loss(what: str, *, fail: bool) -> None:
    """Tell a loss in one sentence without its full stop.

    Raises:
        DataLoss: when the source shall fail.
    """
    if fail:
        raise DataLoss(
            f"{what}; some records may have been missed. To go on without them, set the option "
            "failOnDataLoss to false"
        )
    _LOG.warning("%s; some records may have been missed (failOnDataLoss is false)", what)
