"""Whether a schema could be registered, tried out without doing it."""

from typing import Any

from headrace.gateway.registry import registration
from headrace.gateway.registry.error import version_not_found
from headrace.gateway.registry.operation.candidate import read_candidate
from headrace.gateway.registry.request import LATEST, Request
from headrace.gateway.registry.state.stored_schema import StoredSchema
from headrace.gateway.registry.view import RegistryView


def check_version(view: RegistryView, request: Request) -> Any:
    """Compare with one version. Without any, the latest is no obstacle."""
    candidate = read_candidate(view, request)
    number = request.version
    if number == LATEST:
        schema = view.read(lambda state: state.latest(candidate.subject))
    else:
        schema = view.read(lambda state: state.version(candidate.subject, number))
        if schema is None or schema.deleted:
            raise version_not_found(number)
    return _verdict(view, request, candidate, [] if schema is None else [schema])


def check_subject(view: RegistryView, request: Request) -> Any:
    """Compare with all versions that the level looks at."""
    candidate = read_candidate(view, request)
    earlier = view.read(lambda state: state.versions(candidate.subject))
    return _verdict(view, request, candidate, earlier)


def _verdict(
    view: RegistryView,
    request: Request,
    candidate: registration.Candidate,
    earlier: list[StoredSchema],
) -> dict[str, Any]:
    messages = registration.compare(view, candidate, earlier)
    verdict: dict[str, Any] = {"is_compatible": not messages}
    if request.flag("verbose"):
        verdict["messages"] = messages
    return verdict
