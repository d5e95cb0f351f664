"""What is wrong with a program, told before Spark starts."""

from headrace.model.error import HeadraceError


class FlowError(HeadraceError):
    """A program that cannot run as it is written."""


class Unrecoverable(FlowError):
    """No tuple is to blame, so none becomes a dead letter: the batch fails as a whole, and is done
    again from the checkpoint."""


class EmitError(Unrecoverable):
    """A component emitted something else than it declared."""
