"""What is wrong with a program, told before Spark starts."""

from headrace.model.error import HeadraceError


class FlowError(HeadraceError):
    """A program that cannot run as it is written."""


class EmitError(FlowError):
    """A component emitted something else than it declared."""
