"""Looking at events between a source and its channels."""

from headrace.ingest.component import Component
from headrace.ingest.event import Batch, Event


class Interceptor(Component):
    """Changes events or drops them; never adds any.

    To implement: either `intercept`, for a whole batch at once, or `intercept_event`, for one event
    at a time. Named as `type = module:Class`.

    Called from the source's threads, possibly from several at once.

    Example:
        class Upper(Interceptor):
            def intercept_event(self, event: Event) -> Event | None:
                return event._replace(body=event.body.upper())
    """

    def intercept(self, batch: Batch) -> Batch:
        kept = [after for event in batch if (after := self.intercept_event(event)) is not None]
        changed = Batch.of(kept)
        changed.marks = batch.marks
        return changed

    def intercept_event(self, event: Event) -> Event | None:
        """The event to pass on, or None to drop it."""
        return event
