"""Checks AWS Signature Version 4 of a request's headers.

Rule 1: a signature is valid for five minutes around its time, as at the service. Within them it can
be sent again: two equal requests of one second have the same signature, because boto3 signs
nothing that differs between them. A server that refused repeats would refuse sound clients.
Rule 2: `host`, `x-amz-target` and the time must be signed: else a signature for one operation could
be used for another.
"""

import calendar
import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, NamedTuple

from headrace.gateway.kinesis.error import ServiceError

SKEW_SECONDS: Final = 300
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_SCOPE_END: Final = ["kinesis", "aws4_request"]
_FIELD: Final = re.compile(r"\s*(Credential|SignedHeaders|Signature)=([^,\s]+)\s*")
_DATE: Final = "%Y%m%dT%H%M%SZ"
_MUST_BE_SIGNED: Final = frozenset({"host", "x-amz-target"})


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """What a signature covers. Header names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class Credential(NamedTuple):
    """What the headers of a request say about its signature."""

    key_id: str
    scope: list[str]
    signed_headers: list[str]
    date: str
    signature: str


def check_credential(headers: Mapping[str, str], keys: Mapping[str, str], now: float) -> Credential:
    """Check what can be checked before the body has come.

    Args:
        keys: secret access keys by access key id.
        now: seconds since 1970.

    Raises:
        ServiceError: the request is not signed, not in time, or not with one of the keys.
    """
    text = headers.get("authorization")
    if not text:
        raise _refusal("MissingAuthenticationTokenException", "Missing Authentication Token")
    algorithm, _, rest = text.partition(" ")
    found = [each for each in map(_FIELD.fullmatch, rest.split(",")) if each is not None]
    fields: dict[str, str] = {each[1]: each[2] for each in found}
    scope = fields.get("Credential", "").split("/")
    complete = len(fields) == 3 and len(scope) == 5 and scope[3:] == _SCOPE_END
    if algorithm != _ALGORITHM or not complete:
        raise _refusal(
            "IncompleteSignatureException",
            "Authorization header requires 'Credential', 'Signature' and 'SignedHeaders' parameters"
            f" of {_ALGORITHM}.",
        )
    date = headers.get("x-amz-date", "")
    _check_date(date, scope, now)
    names = fields["SignedHeaders"].split(";")
    if not set(names) >= _MUST_BE_SIGNED or "x-amz-date" not in names:
        raise _mismatch()
    if scope[0] not in keys:
        raise unknown_key()
    return Credential(scope[0], scope[1:], names, date, fields["Signature"])


def verify(request: SignedRequest, keys: Mapping[str, str], now: float) -> str:
    """Return the access key id that signed a request.

    Raises:
        ServiceError: the request is not signed, or not by one of the keys.
    """
    given = check_credential(request.headers, keys, now)
    expected = signature(request, given.signed_headers, given.scope, given.date, keys[given.key_id])
    if not hmac.compare_digest(expected.encode(), given.signature.encode()):
        raise _mismatch()
    return given.key_id


def signature(
    request: SignedRequest, names: list[str], scope: list[str], date: str, secret: str
) -> str:
    """Return the signature that a client with this secret would send."""
    headers = "".join(
        f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in names
    )
    canonical = "\n".join(
        (
            request.method,
            request.path or "/",
            request.query,
            headers,
            ";".join(names),
            hashlib.sha256(request.body).hexdigest(),
        )
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = "\n".join((_ALGORITHM, date, "/".join(scope), digest))
    key = b"AWS4" + secret.encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, to_sign.encode(), "sha256").hex()


def _check_date(date: str, scope: list[str], now: float) -> None:
    try:
        signed_at = calendar.timegm(time.strptime(date, _DATE))
    except ValueError:
        raise _refusal(
            "IncompleteSignatureException", "Date must be in ISO-8601 'basic format'."
        ) from None
    if scope[1] != date[:8]:
        raise _refusal(
            "InvalidSignatureException", f"Credential date {scope[1][:40]} is not that of {date}."
        )
    shown_now = time.strftime(_DATE, time.gmtime(now))
    if now - signed_at > SKEW_SECONDS:
        raise _refusal(
            "InvalidSignatureException",
            f"Signature expired: {date} is now earlier than {shown_now} - 5 min.",
        )
    if signed_at - now > SKEW_SECONDS:
        raise _refusal(
            "InvalidSignatureException",
            f"Signature not yet current: {date} is still later than {shown_now} + 5 min.",
        )


def unknown_key() -> ServiceError:
    return _refusal(
        "UnrecognizedClientException", "The security token included in the request is invalid."
    )


def _mismatch() -> ServiceError:
    return _refusal(
        "InvalidSignatureException",
        "The request signature we calculated does not match the signature you provided. Check your "
        "AWS Secret Access Key and signing method.",
    )


def _refusal(code: str, message: str) -> ServiceError:
    return ServiceError(code, message, HTTPStatus.FORBIDDEN)
