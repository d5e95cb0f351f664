"""Collecting and moving events: an agent that runs a Flume configuration.

The names below are the extension API. A component of your own derives from one of the base classes;
a configuration names it as `type = module:Class`.

Base classes:
    Source              produces events in threads of its own
    PollableSource      produces events when a thread of the agent polls it
    ReplayableSource    a pollable source whose position can be stored with its events
    Sink                takes batches from a channel and delivers them
    Channel             a queue of events between sources and sinks, with transactions
    Transaction         one unit of work on a channel: put or take, then commit or rollback
    Interceptor         changes or drops events between a source and its channels
    Selector            chooses the channels of an event
    SinkProcessor       chooses the sink of a group that gets the next batch
    Component           the base class of all of these but Transaction

Values:
    Event               a body of bytes and headers of text
    EventBatch               events in order: what components pass to each other
    Headers             the headers of an event
    Part                some events of a batch, and the channel that a selector sends them to
    Status              what a sink's `process` did
    Ledger              stores the positions of a replayable source with its events

Settings of a component:
    Settings            the values of a component's settings
    Setting             the declaration of one setting
    text, number, flag, port, secret, prefix    declare a setting of that kind

Errors:
    IngestError         the base class of the errors below, except SettingError
    ChannelError        a channel could not accept or return events
    ChannelFull         a channel had no room in time
    ChannelClosed       a channel was stopped
    DeliveryFailed      a sink could not deliver events
    ProtocolError       a peer violated its protocol
    TransactionMisuse   a component used a transaction that has ended
    SettingError        a setting cannot be used
"""

from typing import TYPE_CHECKING

from headrace.model.lazy_import import lazy_names

__all__ = [
    "Channel",
    "ChannelClosed",
    "ChannelError",
    "ChannelFull",
    "Component",
    "DeliveryFailed",
    "Event",
    "EventBatch",
    "Headers",
    "IngestError",
    "Interceptor",
    "Ledger",
    "Part",
    "PollableSource",
    "ProtocolError",
    "ReplayableSource",
    "Selector",
    "Setting",
    "SettingError",
    "Settings",
    "Sink",
    "SinkProcessor",
    "Source",
    "Status",
    "Transaction",
    "TransactionMisuse",
    "flag",
    "number",
    "port",
    "prefix",
    "secret",
    "text",
]

if TYPE_CHECKING:
    from headrace.ingest.channel import Channel
    from headrace.ingest.component import Component
    from headrace.ingest.error import (
        ChannelClosed,
        ChannelError,
        ChannelFull,
        DeliveryFailed,
        IngestError,
        ProtocolError,
        TransactionMisuse,
    )
    from headrace.ingest.event import Event, EventBatch, Headers
    from headrace.ingest.interceptor import Interceptor
    from headrace.ingest.ledger import Ledger
    from headrace.ingest.selector import Part, Selector
    from headrace.ingest.settings import (
        Setting,
        SettingError,
        Settings,
        flag,
        number,
        port,
        prefix,
        secret,
        text,
    )
    from headrace.ingest.sink import Sink, Status
    from headrace.ingest.sink_processor import SinkProcessor
    from headrace.ingest.source import PollableSource, ReplayableSource, Source
    from headrace.ingest.transaction import Transaction
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "EventBatch": "headrace.ingest.event",
            "Channel": "headrace.ingest.channel",
            "ChannelClosed": "headrace.ingest.error",
            "ChannelError": "headrace.ingest.error",
            "ChannelFull": "headrace.ingest.error",
            "Component": "headrace.ingest.component",
            "DeliveryFailed": "headrace.ingest.error",
            "Event": "headrace.ingest.event",
            "Headers": "headrace.ingest.event",
            "IngestError": "headrace.ingest.error",
            "Interceptor": "headrace.ingest.interceptor",
            "Ledger": "headrace.ingest.ledger",
            "Part": "headrace.ingest.selector",
            "PollableSource": "headrace.ingest.source",
            "ProtocolError": "headrace.ingest.error",
            "ReplayableSource": "headrace.ingest.source",
            "Selector": "headrace.ingest.selector",
            "Setting": "headrace.ingest.settings",
            "SettingError": "headrace.ingest.settings",
            "Settings": "headrace.ingest.settings",
            "Sink": "headrace.ingest.sink",
            "SinkProcessor": "headrace.ingest.sink_processor",
            "Source": "headrace.ingest.source",
            "Status": "headrace.ingest.sink",
            "Transaction": "headrace.ingest.transaction",
            "TransactionMisuse": "headrace.ingest.error",
            "flag": "headrace.ingest.settings",
            "number": "headrace.ingest.settings",
            "port": "headrace.ingest.settings",
            "prefix": "headrace.ingest.settings",
            "secret": "headrace.ingest.settings",
            "text": "headrace.ingest.settings",
        },
    )
