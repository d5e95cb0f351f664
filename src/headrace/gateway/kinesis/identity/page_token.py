"""Tokens of lists that continue on a next page; valid for five minutes."""

import json
from typing import Any, Final

from headrace.gateway.kinesis.error import ServiceError, invalid_argument
from headrace.gateway.kinesis.identity.seal import Seal

VALID_MS: Final = 300_000


def write_token(seal: Seal, operation: str, content: dict[str, Any], now_ms: int) -> str:
    """Return the token of a next page."""
    text = json.dumps({**content, "issued_ms": now_ms}).encode()
    return seal.close(text, f"page of {operation}".encode())


def read_token(seal: Seal, operation: str, token: str, now_ms: int) -> dict[str, Any]:
    """Return what `write_token` put into a token.

    Raises:
        ServiceError: it is forged, of another operation, or expired.
    """
    text = seal.open(token, f"page of {operation}".encode())
    if text is None:
        raise invalid_argument("Invalid NextToken.")
    content: dict[str, Any] = json.loads(text)
    if now_ms - content["issued_ms"] > VALID_MS:
        raise ServiceError("ExpiredNextTokenException", "NextToken expired.")
    return content
