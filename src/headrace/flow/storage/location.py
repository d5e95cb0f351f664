"""A folder as a user writes it: a path, or a URI of a file system that Hadoop knows.

Rule 1: a URI is text. `pathlib.Path("hdfs://nn:8020/ck")` drops a slash and names another place, so
        a `Path` that begins like a URI is refused.
Rule 2: a path without a scheme is a folder of Hadoop's default file system (`fs.defaultFS`), as it
        is for Spark. That is this machine's, unless Hadoop is configured otherwise.
Rule 3: on a master with several machines, a folder of this machine is refused: executors would
        look for the files on their own disks. `file:///…` says that all machines mount the folder.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from headrace.flow.error import FlowError

# Two characters at least: C:/ is no scheme.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_FILE = re.compile(r"file:(//[^/]*)?(?=/)")


@dataclass(frozen=True, slots=True)
class Location:
    """A path or a URI.

    >>> Location.of("hdfs://nn:8020/ck").child("words").text
    'hdfs://nn:8020/ck/words'
    >>> Location.of("file:///mnt/ck").local_path
    PosixPath('/mnt/ck')
    """

    text: str

    @classmethod
    def of(cls, given: "str | Path | Location") -> "Location":
        """Return the location of what a user wrote.

        Raises:
            FlowError: it is empty, or a URI in a `Path`.
        """
        if isinstance(given, Location):
            return given
        text = str(given).strip()
        if not text:
            raise FlowError(
                "a folder has no name: write a path or a URI, such as hdfs://host/words"
            )
        if isinstance(given, Path) and _SCHEME.match(text):
            raise FlowError(f"a Path cannot be the URI {text}: pass it as text")
        return cls(text if text == "/" else text.rstrip("/"))

    @property
    def scheme(self) -> str | None:
        """The scheme of a URI, such as hdfs; None for a path."""
        found = _SCHEME.match(self.text)
        return None if found is None else found[1].lower()

    @property
    def local_path(self) -> Path | None:
        """The folder on this machine, if the text names one; None for other file systems."""
        if self.scheme is None:
            return Path(self.text)
        return Path(_FILE.sub("", self.text)) if self.scheme == "file" else None

    @property
    def absolute(self) -> str:
        """Text that is the same wherever it is used: what two runs compare."""
        return str(Path(self.text).resolve()) if self.scheme is None else self.text

    def child(self, name: str) -> "Location":
        return Location(f"{self.text.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.text


def is_cluster(master: str) -> bool:
    """Return whether the executors of a Spark master may be on other machines."""
    return not master.startswith("local")


def check_reachable(location: Location, what: str, *, master: str, default_fs: str) -> None:
    """Refuse a folder of this machine if the executors are on others (rule 3).

    Args:
        what: what is in the folder, as an error names it: the checkpoint.
        default_fs: Hadoop's fs.defaultFS, which a path without a scheme belongs to.

    Raises:
        FlowError: executors would not find the folder.
    """
    if is_cluster(master) and location.scheme is None and default_fs.startswith("file:"):
        raise FlowError(
            f"{what} {location} is a folder of this machine, and the executors of {master} run on"
            " others: write hdfs://…, s3a://… or another URI that all of them reach, or"
            f" file://{location.absolute} if every machine mounts that folder"
        )
