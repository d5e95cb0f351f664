"""Errors of an agent's components; a wrong configuration is a `ConfigError` instead."""

from headrace.model.error import HeadraceError


class IngestError(HeadraceError):
    """The base class of the errors that components raise on purpose."""


class ChannelError(IngestError):
    """A channel could not accept or return events. The transaction was rolled back: retry."""


class ChannelFull(ChannelError):
    """A channel had no room in time. This is backpressure: the source waits and retries."""


class ChannelClosed(ChannelError):
    """A channel was stopped during the call, or before it."""


class TransactionMisuse(IngestError):
    """A component called put, take or commit on a transaction that has ended."""


class DeliveryFailed(IngestError):
    """A sink could not deliver events. They are back in the channel."""


class ProtocolError(IngestError):
    """A peer violated its protocol; its connection is closed."""
