"""`partition.metadata`: of which topic a partition directory is (KIP-516)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.log.filesystem import FileSystem, sync_file
from headrace.model.error import CorruptLog
from headrace.model.ids import TopicId, parse_uuid_text, uuid_text

FILE_NAME: Final = "partition.metadata"
_HEAD = b"version: 0\ntopic_id: "
_ID_CHARACTERS = 22  # a UUID in base64url


@dataclass(frozen=True, slots=True)
class PartitionMetadataFile:
    """The id of the topic: a topic that was deleted and created again has another, and then the
    directory is a stray one that must not be served.

    Byte format (Kafka's, version 0): the two lines `version: 0` and `topic_id: <base64url>`.

    Crash: written once, before the partition's first append, and durable before any of its records
    is (`sync_new`). A crash of the machine before that may leave a torn file, which counts as none.
    """

    topic_id: TopicId

    @classmethod
    def read(cls, filesystem: FileSystem, directory: Path) -> "PartitionMetadataFile | None":
        """Read the file of a partition's directory; None when it has none, or a torn one.

        Raises:
            CorruptLog: the file does not hold.
        """
        path = directory / FILE_NAME
        try:
            content = filesystem.read_bytes(path)
        except FileNotFoundError:
            return None
        if _torn(content):
            return None
        lines = content.decode("latin-1").splitlines()
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        if fields.get("version") != "0" or "topic_id" not in fields:
            raise CorruptLog(f"{path} must hold 'version: 0' and a topic_id")
        try:
            return cls(TopicId(parse_uuid_text(fields["topic_id"].strip())))
        except ValueError as error:
            raise CorruptLog(f"{path} has a wrong topic_id: {error}") from None

    def write(self, filesystem: FileSystem, directory: Path) -> None:
        """Write the file, durable on return."""
        filesystem.write_atomically(directory / FILE_NAME, self._encode())

    def write_new(self, filesystem: FileSystem, directory: Path) -> None:
        """Write the file of a new log, durable after `sync_new`: 3,000 partitions that are created
        at once must not wait for the disk 3,000 times."""
        file = filesystem.open(directory / FILE_NAME, create=True)
        try:
            file.pwritev([self._encode()], 0)
        finally:
            file.close()

    def _encode(self) -> bytes:
        return _HEAD + uuid_text(self.topic_id).encode("ascii")


def sync_new(filesystem: FileSystem, directory: Path) -> None:
    """Make a new log durable: the file, if there is one, and the name of the directory."""
    path = directory / FILE_NAME
    if filesystem.exists(path):
        file = filesystem.open(path)
        try:
            sync_file(file)
        finally:
            file.close()
    filesystem.sync_directory(directory.parent)


def _torn(content: bytes) -> bool:
    """Return whether a crash cut this file short, or left zeros where its bytes should be."""
    kept = content.rstrip(b"\0")
    if len(kept) >= len(_HEAD) + _ID_CHARACTERS:
        return False
    if kept.startswith(_HEAD):
        digits = kept[len(_HEAD) :].translate(None, b"-_")
        return not digits or digits.isalnum()
    return _HEAD.startswith(kept)
