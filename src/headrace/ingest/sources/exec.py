"""The exec source: the output of a command."""

import shlex
import subprocess
from threading import Event as Signal
from threading import Thread
from typing import IO

import structlog

from headrace.ingest.event import EventBatch
from headrace.ingest.format.line_buffer import LineBuffer
from headrace.ingest.settings import Settings, flag, number, text
from headrace.ingest.source import Source

_log = structlog.get_logger(__name__)
_READ_BYTES = 65_536
_LONGEST_LINE = 16 << 20
_STOP_SECONDS = 5.0


class ExecSource(Source):
    """Runs a command such as `tail -F file`; each line of its output is an event.

    Output that is not delivered when the agent ends is lost, as in Flume: the command does not know
    about channels. While a channel is full the command waits on its pipe. TAILDIR is the better way
    to follow files.
    """

    SETTINGS = (
        text("command", "The command.", required=True),
        text("shell", "A shell to run it with, such as /bin/sh -c."),
        flag("restart", "Run it again when it ends.", False),
        number("restartThrottle", "Milliseconds to wait before that.", 10_000),
        flag("logStdErr", "Write its standard error to our log.", False),
        number("batchSize", "Most events in one transaction.", 20, minimum=1),
        number("batchTimeout", "Ignored: lines are delivered at once.", 3000),
        text("charset", "Ignored: bodies are bytes and stay unchanged.", "UTF-8"),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        command, shell = settings.text("command"), settings.optional("shell")
        try:
            self._command = [*shlex.split(shell), command] if shell else shlex.split(command)
        except ValueError as error:
            raise settings.wrong(
                "command", f"command {command!r} cannot be split: {error}"
            ) from None
        self._restart = settings.flag("restart")
        self._throttle_seconds = settings.number("restartThrottle") / 1000
        self._log_errors = settings.flag("logStdErr")
        self._batch = settings.number("batchSize")
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: Thread | None = None
        self.ended = Signal()

    def start(self) -> None:
        self.ended.clear()
        self._thread = Thread(target=self._run, name=f"source {self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._end_process()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _end_process(self) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._run_once()
            except OSError as error:
                _log.error("command_failed", source=self.name, reason=str(error))
            if not self._restart:
                break
            self.stopping.wait(self._throttle_seconds)
        self.ended.set()

    def _run_once(self) -> None:
        with subprocess.Popen(  # noqa: S603 - the command is the configuration's
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if self._log_errors else subprocess.DEVNULL,
            bufsize=0,
        ) as process:
            self._process = process
            if self.stopping.is_set():  # `stop` was called before the process existed
                self._end_process()
            assert process.stdout is not None
            if process.stderr is not None:
                Thread(target=self._log_stream, args=(process.stderr,), daemon=True).start()
            self._read(process.stdout)
            self._end_process()
            code = process.wait()
        _log.info("command_ended", source=self.name, code=code)

    def _read(self, output: IO[bytes]) -> None:
        buffer = LineBuffer(_LONGEST_LINE)
        while data := output.read(_READ_BYTES):
            lines = buffer.feed(data)
            if buffer.overlong:
                lines.append(buffer.take_rest())
            if not self._deliver_lines(lines):
                return
        if rest := buffer.take_rest():
            self._deliver_lines([rest])

    def _deliver_lines(self, lines: list[bytes]) -> bool:
        pieces = EventBatch.plain(lines).pieces(self._batch)
        return all(self.deliver_with_retries(piece) for piece in pieces if len(piece))

    def _log_stream(self, stream: IO[bytes]) -> None:
        for line in stream:
            _log.warning(
                "command_stderr", source=self.name, line=line.decode("utf-8", "replace").rstrip()
            )
