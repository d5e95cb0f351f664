"""Functions that a topology answers (DRPC). Requests and replies travel through topics.

A name is loaded on first use.

    FunctionTopology    A topology with a component `requests`, and `reply` for results.
    DrpcClient          Calls a function from Python.
    Gateway             Serves calls over HTTP, as Storm's DRPC server does.
    FunctionTopics      The topics of a function, which `create` makes.
    DrpcError           A call that got no result; base of the following.
    DrpcTimeout         No reply came in time.
    DrpcFailed          The function raised.
    DrpcBusy            Too many calls wait already.
    UnknownFunction     The topics of the function do not exist.

Example:
    from headrace.flow.drpc import DrpcClient

    with DrpcClient("reach", brokers="127.0.0.1:9092") as reach:
        followers = int(reach.execute("https://example.com/1", timeout_seconds=10))
"""

from typing import TYPE_CHECKING

from headrace.model.lazy_import import lazy_names

__all__ = [
    "DrpcBusy",
    "DrpcClient",
    "DrpcError",
    "DrpcFailed",
    "DrpcTimeout",
    "FunctionTopics",
    "FunctionTopology",
    "Gateway",
    "UnknownFunction",
]

if TYPE_CHECKING:
    from headrace.flow.drpc.client import DrpcClient
    from headrace.flow.drpc.function import FunctionTopology
    from headrace.flow.drpc.function_topics import (
        DrpcBusy,
        DrpcError,
        DrpcFailed,
        DrpcTimeout,
        FunctionTopics,
        UnknownFunction,
    )
    from headrace.flow.drpc.gateway import Gateway
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "DrpcBusy": "headrace.flow.drpc.function_topics",
            "DrpcClient": "headrace.flow.drpc.client",
            "DrpcError": "headrace.flow.drpc.function_topics",
            "DrpcFailed": "headrace.flow.drpc.function_topics",
            "DrpcTimeout": "headrace.flow.drpc.function_topics",
            "FunctionTopics": "headrace.flow.drpc.function_topics",
            "FunctionTopology": "headrace.flow.drpc.function",
            "Gateway": "headrace.flow.drpc.gateway",
            "UnknownFunction": "headrace.flow.drpc.function_topics",
        },
    )
