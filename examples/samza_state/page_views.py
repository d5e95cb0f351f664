"""How often each member saw each page, kept in a store with a changelog."""

from headrace.flow.samza import (
    InitableTask,
    OutgoingMessageEnvelope,
    StreamTask,
    WindowableTask,
)


class CountViews(StreamTask, InitableTask, WindowableTask):
    def init(self, context):
        self.views = context.store("views")
        self.since_window = 0

    def process(self, envelope, collector, coordinator):
        view = envelope.message
        if view.get("end"):
            coordinator.shutdown()
            return
        key = f"{view['member']}/{view['page']}"
        count = (self.views.get(key) or 0) + 1
        self.views.put(key, count)
        self.since_window += 1
        message = {"member": view["member"], "page": view["page"], "views": count}
        collector.send(OutgoingMessageEnvelope("kafka.view-counts", message, key=key))

    def window(self, collector, coordinator):
        message = {"processed": self.since_window}
        collector.send(OutgoingMessageEnvelope("kafka.view-rates", message))
        self.since_window = 0
