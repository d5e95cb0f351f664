"""`meta.properties`: to which node of which cluster a log directory belongs."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from headrace.log.filesystem import FileSystem, has_no_room
from headrace.model.error import CorruptLog, StorageError
from headrace.model.ids import BrokerId, parse_uuid_text, uuid_text

FILE_NAME: Final = "meta.properties"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The node and the cluster of a directory, so that no other broker opens it.

    Byte format: Java properties. We write version 1, as KRaft does; version 0, written by Kafka
    with ZooKeeper, calls the node `broker.id` and may leave out everything. It stays version 0, and
    gets a directory id.

    Attributes:
        node_id: None only in a version 0 file that names none.
        cluster_id: any text; Kafka's are UUIDs in base64url.
        directory_id: tells the directories of one broker apart (KIP-858).
    """

    node_id: BrokerId | None
    cluster_id: str | None
    directory_id: UUID | None = None
    version: int = 1

    @classmethod
    def read(cls, filesystem: FileSystem, directory: Path) -> "MetaProperties | None":
        """Read the file of a log directory; None when it has none yet.

        Raises:
            CorruptLog: the file names no node or no cluster, or something that cannot be one.
        """
        path = directory / FILE_NAME
        try:
            content = filesystem.read_bytes(path)
        except FileNotFoundError:
            return None
        try:
            return cls._of(_parse(content))
        except ValueError as error:
            raise CorruptLog(f"{path} cannot be used: {error}") from None

    @classmethod
    def claim(
        cls, filesystem: FileSystem, directory: Path, node_id: int, cluster_id: str | None
    ) -> "MetaProperties":
        """Return to which node and cluster a directory belongs: those that used it first.

        Raises:
            StorageError: it belongs to another node, or to another cluster.
        """
        stored = cls.read(filesystem, directory)
        if stored is None:
            new = cls(
                node_id=BrokerId(node_id),
                cluster_id=cluster_id or uuid_text(uuid4()),
                directory_id=uuid4(),
            )
            new.write(filesystem, directory)
            return new
        if stored.node_id is not None and stored.node_id != node_id:
            raise StorageError(
                f"{directory} belongs to node {stored.node_id}, and this is node {node_id}: "
                "use its own directory, or set node.id"
            )
        if cluster_id and stored.cluster_id and stored.cluster_id != cluster_id:
            raise StorageError(
                f"{directory} belongs to cluster {stored.cluster_id}, and this is {cluster_id}"
            )
        if stored.directory_id is None:
            # Kafka writes the same into a directory of an earlier release (KIP-858).
            try:
                named = stored.with_new_id()
                named.write(filesystem, directory)
                stored = named
            except OSError as error:
                if not has_no_room(error):  # what is there can be read without room
                    raise
        return stored

    def with_new_id(self) -> "MetaProperties":
        """Return the same with another directory id."""
        return replace(self, directory_id=uuid4())

    def write(self, filesystem: FileSystem, directory: Path) -> None:
        """Write the file, durable on return."""
        lines = [f"version={self.version}"]
        if self.node_id is not None:
            lines.append(f"{'node.id' if self.version else 'broker.id'}={self.node_id}")
        if self.cluster_id is not None:
            lines.append(f"cluster.id={_escape(self.cluster_id)}")
        if self.directory_id is not None:
            lines.append(f"directory.id={uuid_text(self.directory_id)}")
        content = "\n".join((*lines, ""))
        filesystem.write_atomically(directory / FILE_NAME, content.encode("ascii"))

    @classmethod
    def _of(cls, properties: dict[str, str]) -> "MetaProperties":
        version = _whole(properties, "version")
        if version not in (0, 1):
            raise ValueError(f"version must be 0 or 1, it is {properties.get('version')!r}")
        node_id = _whole(properties, "node.id" if version else "broker.id")
        cluster_id = properties.get("cluster.id")
        if version == 1 and (node_id is None or cluster_id is None):
            raise ValueError("version 1 needs node.id and cluster.id")
        directory = properties.get("directory.id")
        return cls(
            version=version,
            node_id=None if node_id is None else BrokerId(node_id),
            cluster_id=cluster_id,
            directory_id=None if directory is None else parse_uuid_text(directory),
        )


def _whole(properties: dict[str, str], name: str) -> int | None:
    text = properties.get(name)
    # -1 stands for "not assigned yet" in version 0.
    if text is None or text == "-1":
        return None
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name} must be a whole number, it is {text!r}")
    return int(text)


def _parse(content: bytes) -> dict[str, str]:
    """Parse Java properties, as far as such a file has them: no continued lines, no \\uXXXX."""
    properties: dict[str, str] = {}
    for line in content.decode("latin-1").splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, equals, value = stripped.partition("=")
        if not equals:
            raise ValueError(f"{stripped!r} is not a property: write it as name=value")
        properties[name.strip()] = _unescape(value.strip())
    return properties


def _escape(text: str) -> str:
    return "".join("\\" + letter if letter in "\\:=#!" else letter for letter in text)


def _unescape(text: str) -> str:
    letters = iter(text)
    return "".join(next(letters, "") if letter == "\\" else letter for letter in letters)
