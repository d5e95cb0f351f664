"""The position of a source that has a single one: a row, a state, never a list of files."""

import json
from pathlib import Path
from typing import Any

import structlog

from headrace.ingest.error import IngestError
from headrace.ingest.event import EventBatch
from headrace.ingest.file.replaced_file import replace_file
from headrace.ingest.source import ReplayableSource

_log = structlog.get_logger(__name__)


class Bookmark:
    """Delivers batches of a source and stores the position after each of them, as a JSON value.

    Rule 1: without a ledger the position is in a file, which is written when the batch is in the
        channel. A crash in between repeats that batch. A file that cannot be written is found at
        the start; one that fails later is written before the next batch, and no batch is repeated.
    Rule 2: with a ledger the position travels with the batch (decision 0013), and no batch is
        repeated. Positions are numbered, because their values have no order that is known here.
    Rule 3: a delivery that failed may have been committed nevertheless. Call `settle` before the
        next one: it says where the source is.

    Crash: the file is replaced atomically and synced.

    Attributes:
        value: the position; None before the first one.
        number: counts the positions, from 0.
    """

    def __init__(self, source: ReplayableSource, key: str, written: str | None) -> None:
        """Args:
        key: what the position is in, a table for one. A position in something else is not used.
        written: the file of the configuration; by default one for each agent and source.
        """
        self.value: Any = None
        self.number = 0
        self._source = source
        self._key = key
        self._written = written
        self._uncertain = False
        # What the file does not have yet.
        self._unwritten: str | None = None

    @property
    def path(self) -> Path:
        """The file of the position."""
        if self._written is not None:
            return Path(self._written).expanduser()
        folder = Path("~/.headrace/agent").expanduser()
        return folder / f"{self._source.agent or 'agent'}.{self._source.name}.position.json"

    def load(self) -> None:
        """Read the position of the last run. With a ledger that is the committed one, also for a
        source that starts again in the same run: batches that were not committed are dropped before
        it does.

        Raises:
            IngestError: it cannot be read, or a new one cannot be stored.
        """
        stored = self._stored()
        if self._source.ledger is not None:
            self.value, self.number = None, 0
        self._take(stored)
        self._uncertain = False
        if self._source.ledger is None:
            self._check_writable()

    def _check_writable(self) -> None:
        """Find out before the first delivery, and leave the position that is there."""
        self._write()
        probe = self.path.with_name(self.path.name + ".tmp")
        try:
            probe.parent.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise self._not_stored(error) from None

    def _not_stored(self, error: OSError) -> IngestError:
        return IngestError(
            f"source {self._source.name}: the position is not stored: {error}; see that "
            f"{self.path} can be written, or write another positionFile"
        )

    def _entry_text(self, value: Any, number: int) -> str:
        return json.dumps({"key": self._key, "number": number, "value": value})

    def _write(self) -> None:
        if self._unwritten is None:
            return
        try:
            replace_file(self.path, self._unwritten)
        except OSError as error:
            raise self._not_stored(error) from None
        self._unwritten = None

    def deliver(self, batch: EventBatch, value: Any) -> None:
        """Put a batch into the channels; `value` is the position after it. An empty batch only
        moves the position.

        Raises:
            ChannelError: the position has not moved; call `settle` and retry.
            IngestError: the position before is not in the file yet, and nothing is delivered.
        """
        entry = self._entry_text(value, self.number + 1)
        ledger = self._source.ledger
        if ledger is not None:
            batch.marks = {self._key: entry}
        else:
            self._write()
        if len(batch) or ledger is not None:
            try:
                self._source.deliver(batch)
            except Exception:
                self._uncertain = ledger is not None
                raise
        self.value, self.number = value, self.number + 1
        if ledger is None:
            self._unwritten = entry
            try:
                self._write()
            except IngestError as error:
                # The batch is in the channel, so this is no failure of it: the next one waits.
                _log.warning("position_not_stored", source=self._source.name, reason=str(error))

    def settle(self) -> bool:
        """Find out whether the delivery that failed was committed nevertheless. Return whether the
        position has moved."""
        if not self._uncertain:
            return False
        before = self.number
        self._take(self._stored())
        self._uncertain = False
        return self.number != before

    def _take(self, entry: dict[str, Any] | None) -> None:
        # Batches that wait in a channel are not in the ledger yet, so the position only grows.
        if entry is not None and entry["number"] > self.number:
            self.value, self.number = entry["value"], entry["number"]

    def _stored(self) -> dict[str, Any] | None:
        ledger = self._source.ledger
        if ledger is not None:
            mark = ledger.load().get(self._key)
            return None if mark is None else self._entry(mark, "the ledger")
        try:
            written = self.path.read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None
        entry = self._entry(written, str(self.path))
        if entry["key"] != self._key:
            _log.warning(
                "position_not_used",
                source=self._source.name,
                path=str(self.path),
                position_of=entry["key"],
                reason=f"the source reads {self._key} now, from its beginning",
            )
            return None
        return entry

    def _entry(self, written: str, where: str) -> dict[str, Any]:
        try:
            entry = json.loads(written)
        except ValueError:
            entry = None
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("key"), str)
            or not isinstance(entry.get("number"), int)
            or "value" not in entry
        ):
            raise IngestError(
                f"source {self._source.name}: {where} holds no position; put the right one back, "
                "or delete it to begin again"
            )
        return entry
