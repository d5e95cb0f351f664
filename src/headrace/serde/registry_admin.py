"""Everything of a schema registry but values: subjects, versions, levels, modes, contexts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from headrace.schema.schema import SchemaText
from headrace.serde.error import RegistryError
from headrace.serde.registered_schema import schema_text
from headrace.serde.registry_client import RegistryClient, schema_body

# Few enough for their texts to fit into one answer.
_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version as the registry shows it. Its text is not parsed, so any text can be shown.

    Attributes:
        subject, version: None if no version has the id any more.
    """

    subject: str | None
    version: int | None
    id: int
    guid: str | None
    text: SchemaText
    deleted: bool = False


class RegistryAdmin:
    """Lists, deletes and configures what a registry holds.

    A subject may be qualified with its context, as in `:.staging:clicks-value`.

    Every method raises:
        RegistryError: the registry refused it.
        RegistryUnreachable: no registry answers.

    Threads: any.
    """

    def __init__(self, client: RegistryClient) -> None:
        self._client = client

    # -- subjects and versions -----------------------------------------------------------------

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """Return the names of all subjects in all contexts.

        Args:
            deleted: those too of which all versions are deleted, but not for good.
        """
        return [str(each) for each in self._list(f"/subjects{_query(deleted=deleted)}")]

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        path = f"{_subject(subject)}/versions{_query(deleted=deleted)}"
        return [int(each) for each in self._list(path)]

    def version(
        self, subject: str, version: int | str = "latest", *, deleted: bool = False
    ) -> SchemaVersion:
        path = f"{_subject(subject)}/versions/{version}{_query(deleted=deleted)}"
        return _version(self._object("GET", path))

    def schemas(self, *, deleted: bool = False) -> list[SchemaVersion]:
        """Return all versions of all subjects."""
        found: list[SchemaVersion] = []
        while True:
            query = _query(deleted=deleted, offset=len(found), limit=_PAGE)
            page = [_version(each) for each in self._list(f"/schemas{query}")]
            if found and page and page[0] == found[0]:
                return found  # a registry without pages
            found += page
            if len(page) != _PAGE:
                return found

    def lookup(self, subject: str, text: SchemaText, *, deleted: bool = False) -> SchemaVersion:
        """Return the version of a subject that has this schema."""
        path = f"{_subject(subject)}{_query(deleted=deleted)}"
        return _version(self._object("POST", path, schema_body(text)))

    def of_id(
        self, schema_id: int, subject: str | None = None, *, deleted: bool = False
    ) -> list[SchemaVersion]:
        """Return every version that has an id, only those of a subject if one is given."""
        chosen = {} if subject is None else {"subject": subject}
        schema = self._object("GET", f"/schemas/ids/{schema_id}{_query(**chosen)}")
        try:
            places = self._list(
                f"/schemas/ids/{schema_id}/versions{_query(deleted=deleted, **chosen)}"
            )
        except RegistryError as error:
            if error.status != 404:
                raise
            places = []  # all of them are deleted
        bare = {"id": schema_id, **schema, "subject": None, "version": None}
        if subject is not None:
            places = [each for each in places if each.get("subject") == subject]
        return [_version({**bare, **each}) for each in places] or [_version(bare)]

    def referrers(self, subject: str, version: int | str = "latest") -> list[int]:
        """Return the ids of the schemas that use a version."""
        path = f"{_subject(subject)}/versions/{version}/referencedby"
        return [int(each) for each in self._list(path)]

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions of a subject and return their numbers.

        Args:
            permanent: for good; they must have been deleted without it before.
        """
        path = f"{_subject(subject)}{_query(permanent=permanent)}"
        return [int(each) for each in self._list(path, "DELETE")]

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        """Delete a version and return its number."""
        path = f"{_subject(subject)}/versions/{version}{_query(permanent=permanent)}"
        answer = self._client.ask("DELETE", path)
        if not isinstance(answer, int):
            raise _unexpected("version")
        return answer

    def objections(
        self, subject: str, text: SchemaText, version: int | str | None = None
    ) -> list[str] | None:
        """Return what stands against a new version; None if it is compatible.

        Args:
            version: to compare with; None for all that the level of the subject looks at.
        """
        path = f"/compatibility{_subject(subject)}/versions"
        if version is not None:
            path += f"/{version}"
        answer = self._object("POST", f"{path}?verbose=true", schema_body(text))
        if answer.get("is_compatible"):
            return None
        return [str(each) for each in answer.get("messages") or ()]

    # -- settings ------------------------------------------------------------------------------

    def level(self, subject: str | None = None) -> str:
        """Return the compatibility level that holds for a subject, or for all without their own."""
        answer = self._object("GET", f"{_setting('config', subject)}?defaultToGlobal=true")
        return str(answer.get("compatibilityLevel", answer.get("compatibility")))

    def set_level(self, level: str, subject: str | None = None) -> None:
        self._object("PUT", _setting("config", subject), {"compatibility": level})

    def reset_level(self, subject: str | None = None) -> None:
        """Remove a level, so that the next wider one holds."""
        self._client.ask("DELETE", _setting("config", subject))

    def mode(self, subject: str | None = None) -> str:
        """Return whether schemas may be registered: READWRITE, READONLY, IMPORT."""
        return str(
            self._object("GET", f"{_setting('mode', subject)}?defaultToGlobal=true").get("mode")
        )

    def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> None:
        """Set a mode.

        Args:
            force: IMPORT even though there are schemas already.
        """
        self._object("PUT", f"{_setting('mode', subject)}{_query(force=force)}", {"mode": mode})

    def reset_mode(self, subject: str | None = None) -> None:
        """Remove a mode, so that the next wider one holds."""
        self._client.ask("DELETE", _setting("mode", subject))

    def contexts(self) -> list[str]:
        return [str(each) for each in self._list("/contexts")]

    # -- inside --------------------------------------------------------------------------------

    def _list(self, path: str, method: str = "GET") -> list[Any]:
        answer = self._client.ask(method, path)
        if not isinstance(answer, list):
            raise _unexpected("list")
        return answer

    def _object(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        answer = self._client.ask(method, path, body)
        if not isinstance(answer, dict):
            raise _unexpected("object")
        return answer


def _subject(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _setting(name: str, subject: str | None) -> str:
    return f"/{name}" if subject is None else f"/{name}/{quote(subject, safe='')}"


def _query(**values: Any) -> str:
    """Return the query of a path; what is False is left out."""
    given = {
        name: "true" if value is True else str(value)
        for name, value in values.items()
        if value is not False
    }
    return f"?{urlencode(given)}" if given else ""


def _version(answer: Any) -> SchemaVersion:
    if not isinstance(answer, Mapping):
        raise _unexpected("schema")
    subject, version, guid = answer.get("subject"), answer.get("version"), answer.get("guid")
    try:
        return SchemaVersion(
            None if subject is None else str(subject),
            None if version is None else int(version),
            int(answer["id"]),
            None if guid is None else str(guid),
            schema_text(answer),
            bool(answer.get("deleted")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unexpected("schema") from error


def _unexpected(wanted: str) -> RegistryError:
    return RegistryError(f"the schema registry answers with no {wanted}", 200, 200)
