"""What can go wrong in an agent, beside a configuration that cannot be meant."""

from headrace.model.error import HeadraceError


class IngestError(HeadraceError):
    """The root of what an agent's parts raise on purpose."""


class ChannelError(IngestError):
    """A channel could not take or give events. The transaction was rolled back: try again."""


class ChannelFull(ChannelError):
    """No room came up in time. Backpressure: whoever puts waits and tries again."""


class ChannelClosed(ChannelError):
    """The channel was stopped while somebody waited for it."""


class TransactionMisuse(IngestError):
    """A put, take or commit outside of an open transaction: a mistake in a component."""


class DeliveryFailed(IngestError):
    """A sink could not hand events on. They are in the channel again."""


class ProtocolError(IngestError):
    """What a peer sent is not the protocol it should speak; its connection is closed."""
