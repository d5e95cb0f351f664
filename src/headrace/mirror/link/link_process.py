"""The flows of a file that the targets' brokers copy, one thread each."""

from threading import Event, Thread

from headrace.mirror.config.mirror_file import MirrorFile
from headrace.mirror.link.link_flow import LinkFlow


class LinkProcess:
    """Keeps links, topics and groups in step.

    Example:
        with LinkProcess(MirrorFile.read(path)):
            signal.pause()
    """

    def __init__(self, file: MirrorFile) -> None:
        self._stop = Event()
        self._threads = [
            Thread(target=flow.run, args=(self._stop,), name=f"mirror-link-{flow.name}")
            for flow in (
                LinkFlow(each, file.clients[each.source], file.clients[each.target], file.flows)
                for each in file.flows
                if each.copied_by_brokers
            )
        ]

    def __enter__(self) -> "LinkProcess":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
