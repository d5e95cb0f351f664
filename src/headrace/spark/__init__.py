"""Topics as Spark tables and streams: the data source `headrace`, its source and its sink.

`headrace.spark.session()` starts a session. It is loaded when asked for: executors load this
package too, and need none of it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.spark.ready_session import session

__all__ = ["session"]


def __getattr__(name: str) -> Any:
    if name == "session":
        from headrace.spark.ready_session import session

        return session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
