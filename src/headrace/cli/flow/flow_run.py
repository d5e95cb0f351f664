"""A Spark session for a flow of the command line, with its options, and its stop by Ctrl-C."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.cli.flow.failure_message import flow_failed, spark_failures_reported
from headrace.cli.flow.figures_display import Watch, watching
from headrace.cli.terminal.spark_log import silence_pyspark, spark_log, tail_of
from headrace.cli.terminal.stop import Stop
from headrace.flow.error import FlowError
from headrace.flow.monitoring.run_folder import RunFolder
from headrace.flow.storage.location import Location, is_cluster

# Set by spark-submit, which has chosen the master by then.
SUBMITTED = "PYSPARK_GATEWAY_PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run a program, as the command line says.

    Attributes:
        seconds: how long to run; None: until it is stopped.
        once: process the records that exist now, then end.
        spark_log: the file that Spark writes to; None: a temporary file.
        verbose: let Spark write to our standard error instead.
        traceback: report a failure with Spark's whole message.
    """

    program: str
    brokers: str
    checkpoint: Location
    master: str | None = None
    seconds: float | None = None
    once: bool = False
    spark_log: Path | None = None
    verbose: bool = False
    traceback: bool = False

    @property
    def checkpoint_is_here(self) -> bool:
        """Whether the checkpoint is a folder of this machine, whatever Hadoop is configured to."""
        if self.checkpoint.scheme is not None:
            return self.checkpoint.scheme == "file"
        return SUBMITTED not in os.environ and not is_cluster(self.master or "local")

    def is_first_run(self) -> bool | None:
        """Return whether there is no checkpoint yet; None: only a Spark session can find out."""
        path = self.checkpoint.local_path
        if path is None or not self.checkpoint_is_here:
            return None
        return not path.exists()

    def with_spark_log(self, name: str) -> "RunOptions":
        """Return these options with the file for Spark's output: beside a checkpoint of this
        machine, else in the current folder under the flow's name."""
        path = self.checkpoint.local_path if self.checkpoint_is_here else None
        return replace(self, spark_log=Path(f"{name if path is None else path}.log"))

    def failed(self, name: str, error: BaseException) -> FlowError:
        return flow_failed(name, error, traceback=self.traceback, log=self.spark_log)


def is_first_run(spark: Any, options: RunOptions) -> bool:
    """Return whether there is no checkpoint yet.

    Raises:
        FlowError: executors on other machines would not reach it.
    """
    from headrace.flow.storage.hadoop_file_store import open_store

    return not open_store(spark, options.checkpoint, "the checkpoint").exists()


@contextmanager
def spark_for(
    name: str, options: RunOptions, settings: Mapping[str, str], *, realtime: bool = False
) -> Iterator[Any]:
    """Yield a Spark session for a flow, and stop it at the end.

    Raises:
        FlowError: Spark did not start, or failed inside the block.
    """
    from py4j.protocol import Py4JError

    with nullcontext() if options.verbose else spark_log(options.spark_log) as log:
        spark = _session(name, options, settings, log, realtime=realtime)
        try:
            with spark_failures_reported(name, traceback=options.traceback, log=options.spark_log):
                yield spark
        finally:
            with suppress(Py4JError, ConnectionError):  # the Java process may be gone
                spark.stop()


def _session(
    name: str, options: RunOptions, settings: Mapping[str, str], log: Path | None, *, realtime: bool
) -> Any:
    from headrace.process.stderr_redirect import stderr_to
    from headrace.spark.ready_session import SparkUnavailable, session

    config = {key: value for key, value in settings.items() if key.startswith("spark.")}
    config = {"spark.ui.showConsoleProgress": "false", **config}
    handler = signal.getsignal(signal.SIGINT)
    if log is not None:
        silence_pyspark()
    try:
        with nullcontext() if log is None else stderr_to(log):
            return session(name, master=options.master, realtime=realtime, config=config)
    except SparkUnavailable as error:
        tail = "" if log is None else f"\n{tail_of(log)}"
        raise FlowError(f"{error}{tail}") from error
    finally:
        # Spark installs a handler of its own, which would raise in the middle of a call to Java.
        signal.signal(signal.SIGINT, handler)


@contextmanager
def started(
    name: str, options: RunOptions, settings: Mapping[str, str], *, realtime: bool = False
) -> Iterator[tuple[Any, Callable[[], bool], Watch]]:
    """Yield Spark, a function that returns whether to stop, and one to call with the figures."""
    RunFolder().check_free(options.checkpoint.absolute)
    with Stop() as stop, watching() as (watch, _):
        print(f"Starting Spark for {name} ...", flush=True)
        with spark_for(name, options, settings, realtime=realtime) as spark:
            log = "" if options.verbose else f", Spark's log in {options.spark_log}"
            print(f"{name} runs, checkpoint in {options.checkpoint}{log}", flush=True)
            yield spark, lambda: stop.requested, watch
    print("Stopped." if stop.requested else f"{name} is done.", flush=True)
