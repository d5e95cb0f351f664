"""`DryRun` of the data operations."""

from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.service import Request


def refuse_dry_run(request: Request) -> None:
    """End a request that was only to be checked, as the service does: with an exception."""
    if request.get("DryRun"):
        raise ServiceError(
            "DryRunOperationException", "Request would have succeeded, but DryRun flag is set."
        )
