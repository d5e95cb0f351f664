"""The base class of interceptors, which change events between a source and its channels."""

from headrace.ingest.component import Component
from headrace.ingest.event import Event, EventBatch


class Interceptor(Component):
    """Changes or drops events; it never adds any.

    To implement: either `intercept`, for a whole batch, or `intercept_event`, for a single event. A
    configuration names it as `type = module:Class`.

    Threads: the source's threads call it, possibly several at once.

    Example:
        class Upper(Interceptor):
            def intercept_event(self, event: Event) -> Event | None:
                return event._replace(body=event.body.upper())
    """

    def intercept(self, batch: EventBatch) -> EventBatch:
        """Return the batch to pass on; never change the given one."""
        kept = [after for event in batch if (after := self.intercept_event(event)) is not None]
        changed = EventBatch.of(kept)
        changed.marks = batch.marks
        return changed

    def intercept_event(self, event: Event) -> Event | None:
        """Return the event to pass on, or None to drop it."""
        return event
