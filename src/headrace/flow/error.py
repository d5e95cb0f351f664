"""Errors of flows."""

from headrace.model.error import HeadraceError


class FlowError(HeadraceError):
    """A program that cannot run as it is written. Most are raised before Spark starts."""


class Unrecoverable(FlowError):
    """A failure that no single tuple caused, so none becomes a dead letter.

    The batch fails as a whole, and Spark repeats it from the checkpoint.
    """


class EmitError(Unrecoverable):
    """A component emitted tuples that do not fit its declaration."""
