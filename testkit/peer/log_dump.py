"""What Apache Kafka's DumpLogSegments says about the files of a log.

The tool tells a good file from a bad one only in what it prints: it ends with 0 either way. So its
complaints are gathered here, and a test asserts that there are none.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from testkit.peer.kafka_tool import KafkaTool, KafkaTools

DUMPED_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")

_BATCH = re.compile(r"^baseOffset: ")
_FIELD = re.compile(r"(\w+): (\S+)")
_RECORD = re.compile(
    r"^\| offset: (?P<offset>\d+) (?P<timestamp_type>\w+): (?P<timestamp_ms>-?\d+) "
    r"keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+)"
    r"(?: sequence: (?P<sequence>-?\d+))?(?: headerKeys: \[(?P<headers>[^]]*)\])?"
    r"(?: endTxnMarker: (?P<marker>\w+) coordinatorEpoch: (?P<coordinator_epoch>-?\d+))?"
    r"(?: key: (?P<key>.*?))?(?: payload: (?P<value>.*))?$"
)
_UNPROVED = re.compile(r"Index timestamp: (-?\d+), log timestamp: -1")


@dataclass(frozen=True, slots=True)
class DumpedBatch:
    """One `baseOffset: ...` line: Kafka's own names for the fields, as text."""

    fields: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.fields[name]


@dataclass(frozen=True, slots=True)
class DumpedRecord:
    """One `| offset: ...` line. Key and value are there when they are UTF-8 without line breaks."""

    offset: int
    timestamp_ms: int
    key_size: int
    value_size: int
    header_keys: tuple[str, ...]
    marker: str | None
    key: str | None
    value: str | None


@dataclass(slots=True)
class LogDump:
    """Everything the tool printed, file by file, in the order it was given the files."""

    batches: dict[Path, list[DumpedBatch]] = field(default_factory=dict)
    records: dict[Path, list[DumpedRecord]] = field(default_factory=dict)
    lines: dict[Path, list[str]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def records_of(self, folder: Path) -> list[DumpedRecord]:
        """Return the records of a partition, control records included, over all its segments."""
        return [r for path, found in self.records.items() if path.parent == folder for r in found]

    def batches_of(self, folder: Path) -> list[DumpedBatch]:
        return [b for path, found in self.batches.items() if path.parent == folder for b in found]

    def lines_of(self, folder: Path, suffix: str) -> list[str]:
        """Return the lines about the files with `suffix`, an index's entries for example."""
        return [
            line
            for path, found in self.lines.items()
            if path.parent == folder and path.suffix == suffix
            for line in found
        ]

    def complaints_of(self, folder: Path, *, compacted: bool = False) -> list[str]:
        """Return what the tool found wrong in `folder`, or found wrong without naming a file.

        Args:
            compacted: leave out what the tool also says about a good log that was compacted: that
                there are gaps between offsets, and that a batch that was emptied, and kept for its
                producer's sake, has no records to prove the time it has in the time index.
        """
        others = {path.parent for path in self.lines} - {folder}
        mine = [
            text
            for text in self.complaints
            if f"{folder}/" in text or not any(f"{other}/" in text for other in others)
        ]
        if compacted:
            emptied = {b["CreateTime"] for b in self.batches_of(folder) if b["count"] == "0"}
            mine = [text for text in mine if not _of_compaction(text, emptied)]
        return mine


def dump_log(tools: KafkaTools, folders: Iterable[Path]) -> LogDump:
    """Let Kafka read every log, index and snapshot of some partitions, in two runs of the tool.

    The first run iterates every record of every batch, decompressed, and checks each index entry
    against the log. The second makes the check by which a broker decides at its start whether it
    must rebuild an index.
    """
    files = [
        path
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.suffix in DUMPED_SUFFIXES
    ]
    listed = ",".join(map(str, files))
    deep = tools.run(
        KafkaTool.DUMP_LOG, "--deep-iteration", "--print-data-log", "--files", listed
    ).checked()
    dump = _parse(deep.stdout)
    dump.complaints += _error_paragraphs(deep.stderr)

    indexes = ",".join(str(path) for path in files if path.suffix in (".index", ".timeindex"))
    sane = tools.run(KafkaTool.DUMP_LOG, "--index-sanity-check", "--files", indexes).checked()
    dump.complaints += _error_paragraphs(sane.stderr)
    return dump


def _of_compaction(complaint: str, emptied_ms: set[str]) -> bool:
    heading, *lines = complaint.splitlines()
    if heading.startswith("Non-consecutive offsets"):
        return True
    found = [_UNPROVED.fullmatch(line.strip()) for line in lines]
    return heading.startswith("Found timestamp mismatch") and all(
        match is not None and match[1] in emptied_ms for match in found
    )


def _parse(stdout: str) -> LogDump:
    dump = LogDump()
    path = Path()
    for line in stdout.splitlines():
        if line.startswith("Dumping "):
            path = Path(line.removeprefix("Dumping "))
            dump.batches[path], dump.records[path], dump.lines[path] = [], [], []
            continue
        dump.lines[path].append(line)
        if _BATCH.match(line):
            batch = DumpedBatch(dict(_FIELD.findall(line)))
            dump.batches[path].append(batch)
            if batch.fields.get("isvalid") != "true":
                dump.complaints.append(f"invalid batch in {path}: {line}")
        elif found := _RECORD.match(line):
            dump.records[path].append(_record(found))
        elif "invalid bytes" in line:
            dump.complaints.append(f"{path}: {line}")
    return dump


def _record(found: re.Match[str]) -> DumpedRecord:
    return DumpedRecord(
        offset=int(found["offset"]),
        timestamp_ms=int(found["timestamp_ms"]),
        key_size=int(found["key_size"]),
        value_size=int(found["value_size"]),
        header_keys=tuple(key for key in (found["headers"] or "").split(",") if key),
        marker=found["marker"],
        key=found["key"],
        value=found["value"],
    )


def _error_paragraphs(stderr: str) -> list[str]:
    """Return headings with the indented lines below each: the tool prints one per file."""
    paragraphs: list[str] = []
    for line in stderr.splitlines():
        if line.startswith((" ", "\t")) and paragraphs:
            paragraphs[-1] += "\n" + line
        elif line.strip():
            paragraphs.append(line)
    return paragraphs
