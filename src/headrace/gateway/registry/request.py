"""A request to the registry, read and checked: path, parameters, body, and who sent it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.gateway.access.rights import EVERYTHING, Rights
from headrace.gateway.registry.error import RegistryError, bad_request, invalid_version
from headrace.gateway.registry.state.stored_schema import Json
from headrace.gateway.registry.state.subject_name import (
    ANY_CONTEXT,
    DEFAULT_CONTEXT,
    SubjectName,
)

LATEST: Final = -1
_MOST_VERSION: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        names: what the route's pattern found in the path, such as the subject.
        context: that of `/contexts/{context}/...`, or the default one.
        target: path and query as they came, to be forwarded.
        raw_body: the bytes of the body, to be forwarded.
        headers: with names in lower case.
    """

    method: str
    names: Mapping[str, str]
    query: Mapping[str, str]
    body: Json | list[Any] | None = None
    context: str = DEFAULT_CONTEXT
    rights: Rights = EVERYTHING
    target: str = "/"
    raw_body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_forwarded(self) -> bool:
        """Whether another instance has sent it on: it must not go round."""
        return self.headers.get("x-forward", "").lower() == "true"

    @property
    def subject(self) -> str:
        """The qualified subject of the path; that of the context if it names none."""
        return self._qualified(self.names.get("subject", ""))

    def _qualified(self, text: str) -> str:
        if text.startswith(":."):
            return SubjectName.of(text).text
        return SubjectName(self.context, text).text

    @property
    def query_subject(self) -> str:
        """The qualified subject of the query; that of the context without one."""
        return self._qualified(self.query.get("subject", ""))

    @property
    def prefix(self) -> str:
        """The prefix of subjects to list."""
        text = self.query.get("subjectPrefix")
        if text is None:
            return ANY_CONTEXT if self.context == DEFAULT_CONTEXT else self._qualified("")
        return text if text.startswith(":") else self._qualified(text)

    def flag(self, name: str) -> bool:
        """Return a parameter that is true or false; Python's clients write True."""
        return self.query.get(name, "").lower() == "true"

    @property
    def wanted_tags(self) -> list[str]:
        """The tags of `findTags`; `*`, or true, is any."""
        found = [each for each in self.query.get("findTags", "").split("\n") if each]
        return (
            ["*"] if found in (["true"], ["True"]) else [each for each in found if each != "false"]
        )

    def number(self, name: str, default: int) -> int:
        """Return a whole number of the query.

        Raises:
            RegistryError: 400.
        """
        text = self.query.get(name)
        if not text:
            return default
        try:
            return int(text) if len(text) < 19 else default
        except ValueError:
            raise bad_request(f"{name}={text[:40]} is no number") from None

    @property
    def version(self) -> int:
        """The version of the path; `LATEST` for the latest one.

        Raises:
            RegistryError: 42202.
        """
        text = self.names["version"]
        if text in ("latest", "-1"):
            return LATEST
        if not text.isascii() or not text.isdigit() or not 1 <= int(text[:12]) <= _MOST_VERSION:
            raise invalid_version(text[:64])
        return int(text[:12])

    @property
    def schema_id(self) -> int:
        """The id of the path.

        Raises:
            RegistryError: 404, as for a path that does not exist.
        """
        text = self.names["id"]
        if not text.isascii() or not text.isdigit() or len(text) > 10:
            raise RegistryError(404, "HTTP 404 Not Found")
        return int(text)

    @property
    def members(self) -> Json:
        """The body as an object.

        Raises:
            RegistryError: 400.
        """
        if not isinstance(self.body, dict):
            raise bad_request("The body must be a JSON object")
        return self.body

    def page(self, entries: list[Any], default: int, most: int) -> list[Any]:
        """Return the part of a list that offset and limit name."""
        offset = max(0, self.number("offset", 0))
        limit = self.number("limit", -1)
        limit = default if limit < 0 else min(limit, most)
        return entries[offset : offset + limit]
