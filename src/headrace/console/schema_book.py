"""What the Schemas page shows of a registry, gathered within bounds.

A registry has no request for a table of its subjects: each takes three. They end after some
seconds; what was not asked by then is left empty.
"""

import json
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from headrace.console.line_diff import MOST_LINES, line_diff
from headrace.serde.error import RegistryError
from headrace.serde.registry_client import RegistryClient

MOST_SUBJECTS: Final = 100
MOST_VERSIONS: Final = 100
LEVELS: Final = (
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
)
_SECONDS: Final = 5.0
_NOT_FOUND: Final = 404


class SchemaBook:
    """Asks a registry for one page. Blocks: for worker threads."""

    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry
        self._deadline = time.monotonic() + _SECONDS

    def subjects(self, text: str) -> dict[str, Any]:
        """Return the subjects whose name contains a text, with their latest version."""
        names = self._registry.ask("GET", "/subjects")
        names = sorted(str(each) for each in names if text in str(each).lower())
        return {
            "level": _level(self._registry.ask("GET", "/config")),
            "count": len(names),
            "subjects": [self._row(each) for each in names[:MOST_SUBJECTS]],
        }

    def _row(self, subject: str) -> dict[str, Any]:
        path = f"/subjects/{quote(subject, safe='')}/versions"
        versions = self._try(path)
        latest = self._try(f"{path}/latest") or {}
        return {
            "subject": subject,
            "versions": len(versions) if isinstance(versions, list) else None,
            "latest": latest.get("version"),
            "id": latest.get("id"),
            "type": latest.get("schemaType", "AVRO") if latest else None,
            "level": _level(self._try(f"/config/{quote(subject, safe='')}")),
        }

    def subject(self, subject: str) -> dict[str, Any]:
        """Return a subject and its versions, newest first."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        numbers = sorted(map(int, self._registry.ask("GET", path)), reverse=True)
        versions = []
        for number in numbers[:MOST_VERSIONS]:
            found = self._try(f"{path}/{number}")
            versions.append({"version": number} if found is None else _facts(found))
        return {
            "subject": subject,
            "count": len(numbers),
            "versions": versions,
            "own_level": _level(self._try(f"/config/{quote(subject, safe='')}")),
            "level": _level(self._registry.ask("GET", "/config")),
        }

    def version(self, subject: str, version: int) -> dict[str, Any]:
        """Return a version with its text, laid out for reading."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        found = self._registry.ask("GET", path)
        return {**_facts(found), "text": readable(str(found["schema"]), _type(found))}

    def difference(self, subject: str, one: int, two: int) -> dict[str, Any]:
        """Return the lines of two versions, compared."""
        before, after = self.version(subject, one), self.version(subject, two)
        texts = before["text"].split("\n"), after["text"].split("\n")
        lines = line_diff(texts[0][:MOST_LINES], texts[1][:MOST_LINES])
        return {
            "from": one,
            "to": two,
            "cut": max(map(len, texts)) > MOST_LINES,
            "lines": [[each.kind, each.before, each.after, each.text] for each in lines],
        }

    def _try(self, path: str) -> Any:
        """Return an answer; None if there is no such thing, or no time left."""
        if time.monotonic() > self._deadline:
            return None
        try:
            return self._registry.ask("GET", path)
        except RegistryError as error:
            if error.status == _NOT_FOUND:
                return None
            raise


def readable(text: str, kind: str) -> str:
    """Return a schema's text with a line per member, if it is JSON on few lines.

    >>> print(readable('{"type":"string"}', "AVRO"))
    {
      "type": "string"
    }
    """
    if kind == "PROTOBUF":
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _facts(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "version": found.get("version"),
        "id": found.get("id"),
        "guid": found.get("guid"),
        "type": _type(found),
        "references": [
            {"name": each.get("name"), "subject": each.get("subject"), "version": each["version"]}
            for each in found.get("references") or ()
        ],
    }


def _type(found: Mapping[str, Any]) -> str:
    return str(found.get("schemaType") or "AVRO")


def _level(found: Any) -> str | None:
    if not isinstance(found, Mapping):
        return None
    level = found.get("compatibilityLevel", found.get("compatibility"))
    return None if level is None else str(level)
