"""All flows of a file in one process."""

from threading import Event, Thread

import structlog

from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.config.mirror_file import MirrorFile
from headrace.mirror.process.figures import FlowFigures, readings
from headrace.mirror.process.flow import Flow
from headrace.mirror.process.housekeeping import Housekeeping
from headrace.mirror.process.offset_syncs import OffsetSyncs
from headrace.telemetry.reading import Reading

_log = structlog.get_logger(__name__)


class MirrorProcess:
    """Runs the flows of a file that a process copies, two threads and a fetching one each.

    Args:
        instance: the name of this process among several with the same file that share the work.

    Example:
        with MirrorProcess(MirrorFile.read(path)) as mirror:
            mirror.wait()
    """

    def __init__(self, file: MirrorFile, instance: str | None = None) -> None:
        self._file = file
        self._instance = instance
        self._stop = Event()
        self._ended = Event()
        self._error: BaseException | None = None
        flows = [each for each in file.flows if not each.copied_by_brokers]
        self._figures = [FlowFigures(each.source, each.target) for each in flows]
        self._threads: list[Thread] = []
        for flow, figures in zip(flows, self._figures, strict=True):
            self._add(flow, figures)

    def _add(self, settings: FlowSettings, figures: FlowFigures) -> None:
        source, target = self._file.clients[settings.source], self._file.clients[settings.target]
        syncs = OffsetSyncs(int(str(settings.values["offset.lag.max"])))
        flow = Flow(
            settings,
            source,
            target,
            flows=self._file.flows,
            figures=figures,
            syncs=syncs,
            instance=self._instance,
        )
        back = any(
            (each.source, each.target) == (settings.target, settings.source)
            for each in self._file.flows
        )

        def keep_house() -> None:
            Housekeeping(
                settings,
                source,
                target,
                syncs=syncs,
                share=lambda: flow.share,
                beats_back=not back,
            ).run(self._stop)

        self._threads += [
            Thread(target=self._guarded, args=(run,), name=f"mirror-{kind}-{flow.name}")
            for kind, run in (("copy", lambda: flow.run(self._stop)), ("housekeeping", keep_house))
        ]

    def readings(self) -> list[Reading]:
        """Return the metrics of all flows."""
        return readings(self._figures)

    def wait(self) -> None:
        """Wait until a flow ends for good.

        Raises:
            FlowReplaced: another process has taken a flow over.
        """
        self._ended.wait()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> "MirrorProcess":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Commit what was read, and end."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, run: object) -> None:
        try:
            run()  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            _log.error("mirror_flow_ended", error=str(error))
            self._error = self._error or error
            self._ended.set()
