"""A request between the server and its handler, and what a handler returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

from headrace.client.network.pool import ConnectionPool
from headrace.gateway.rest.access.caller import ANYONE, Caller
from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.error import RestError, bad_request
from headrace.gateway.rest.json_document import read_json, read_object

JSON_TYPE: Final = "application/json"
V2_TYPE: Final = "application/vnd.kafka.v2+json"
MOST_INT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Request:
    """One request, with its body.

    Attributes:
        path: the parameters in the path, decoded.
        query: the parameters behind `?`; of several with one name, the last.
        headers: by names in lower case.
        caller: who sent it.
    """

    method: str
    path: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    caller: Caller = ANYONE

    def document(self) -> dict[str, Any]:
        """Return the body, a JSON object.

        Raises:
            RestError: it is none.
        """
        return read_object(self.body)

    def optional_document(self) -> dict[str, Any]:
        """Return the body, or an empty object if there is none or null."""
        if not self.body.strip() or read_json(self.body) is None:
            return {}
        return self.document()

    def number(self, name: str) -> int:
        """Return a number in the path, from 0 on; one that cannot be is not found."""
        text = self.path[name]
        if not (text.isascii() and text.isdigit() and len(text) <= 10) or int(text) > MOST_INT:
            raise RestError(404, "HTTP 404 Not Found")
        return int(text)

    def query_number(self, name: str, least: int, most: int) -> int | None:
        """Return a number of the query; None if it is not there.

        Raises:
            RestError: it is no number in these bounds.
        """
        text = self.query.get(name)
        if text is None:
            return None
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
            raise bad_request(f"{name} is no number.")
        number = int(text)
        if not least <= number <= most:
            raise bad_request(f"{name} lies between {least} and {most}.")
        return number


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler returns.

    Attributes:
        document: the body as JSON; None for none.
        body: the body's bytes, instead of a document.
    """

    document: Any = None
    status: int = 200
    content_type: str = JSON_TYPE
    body: bytes | None = None


NO_CONTENT: Final = Answer(status=204)


@dataclass(frozen=True, slots=True)
class Call:
    """A request that a thread serves, with this thread's connections.

    Attributes:
        base_url: what links begin with.
        cluster_id: of the cluster behind the proxy.
    """

    request: Request
    pool: ConnectionPool
    base_url: str
    cluster_id: str

    def can_describe(self, topic: str) -> bool:
        """Return whether the caller may see a topic."""
        return self.request.caller.can(Right.DESCRIBE, topic)


def parse_query(text: str) -> dict[str, str]:
    """Return the parameters of a query.

    Raises:
        RestError: there are too many.
    """
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=50))
    except ValueError:
        raise bad_request("The query has too many parameters.") from None
