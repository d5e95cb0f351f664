"""Resource policies: who may do what with a stream or a registered consumer.

Pure. As at the service, a policy is for keys of other accounts, which may do only what a policy
allows. Keys of the own account may do everything that no policy denies.

Rule 1: a statement that denies wins.
Rule 2: a part of the language that is not understood is refused when the policy is put. What would
be passed over could be what protects a stream.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Any, Final

from headrace.gateway.kinesis.error import ServiceError, invalid_argument

MOST_CHARACTERS: Final = 20_480
_VERSIONS: Final = ("2012-10-17", "2008-10-17")
_MEMBERS: Final = {"Version", "Id", "Statement"}
_STATEMENT: Final = {"Sid", "Effect", "Principal", "Action", "Resource"}
_ARN_ACCOUNT: Final = re.compile(r"arn:aws[^:]*:(?:iam|sts)::(\d{12}):.+", re.ASCII)
_ACCOUNT: Final = re.compile(r"\d{12}|arn:aws[^:]*:iam::(\d{12}):root", re.ASCII)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sent a request, such as `arn:aws:iam::000000000000:user/AKIDCLICKS`."""

    arn: str

    @property
    def account(self) -> str:
        found = _ARN_ACCOUNT.fullmatch(self.arn)
        return "" if found is None else found[1]


@dataclass(frozen=True, slots=True)
class _Statement:
    denies: bool
    principals: tuple[str, ...]
    actions: tuple[re.Pattern[str], ...]
    resources: tuple[re.Pattern[str], ...]

    def speaks_of(self, principal: Principal, action: str, resource: str) -> bool:
        return (
            any(_names(each, principal) for each in self.principals)
            and any(each.fullmatch(action) for each in self.actions)
            and any(each.fullmatch(resource) for each in self.resources)
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy that was read."""

    statements: tuple[_Statement, ...]

    def effect(self, principal: Principal, action: str, resource: str) -> bool | None:
        """Return whether it allows or denies an action, or None if it does not speak of it."""
        found = [each for each in self.statements if each.speaks_of(principal, action, resource)]
        if any(each.denies for each in found):
            return False
        return True if found else None


def check_policy(text: str, resource: str) -> None:
    """Check a policy that is to be put to a resource.

    Raises:
        ServiceError: it is no policy, uses what is not supported, or has a statement that speaks
            of other resources: such a denial would protect nothing.
    """
    for statement in read_policy(text).statements:
        if not any(each.fullmatch(resource) for each in statement.resources):
            raise _wrong(f"a Statement does not speak of {resource}")


@lru_cache(maxsize=1024)
def read_policy(text: str) -> Policy:
    """Read a policy.

    Raises:
        ServiceError: it is no policy, or uses what is not supported.
    """
    if len(text) > MOST_CHARACTERS:
        raise _wrong(f"it has more than {MOST_CHARACTERS} characters")
    try:
        raw = json.loads(text, object_pairs_hook=_members)
    except (ValueError, RecursionError):
        raise _wrong("it is no JSON") from None
    if not isinstance(raw, dict):
        raise _wrong("it is no JSON object")
    _refuse_unknown(raw, _MEMBERS)
    if raw.get("Version", _VERSIONS[1]) not in _VERSIONS:
        raise _wrong(f"Version must be {_VERSIONS[0]}")
    found = raw.get("Statement")
    statements = found if isinstance(found, list) else [found]
    if not statements:
        raise _wrong("it has no Statement")
    return Policy(tuple(map(_statement, statements)))


def is_allowed(
    principal: Principal,
    account: str,
    action: str,
    policies: Sequence[tuple[str, str]],
) -> bool:
    """Return whether a principal may act.

    Args:
        account: whose streams these are.
        policies: the resources that the action touches, as their ARNs, with their policies as text,
            empty for none.
    """
    effects = [
        read_policy(text).effect(principal, action, resource) for resource, text in policies if text
    ]
    if False in effects:
        return False
    return True in effects or principal.account == account


def _statement(raw: Any) -> _Statement:
    if not isinstance(raw, dict):
        raise _wrong("a Statement is no JSON object")
    _refuse_unknown(raw, _STATEMENT)
    effect = raw.get("Effect")
    if effect not in ("Allow", "Deny"):
        raise _wrong("Effect must be Allow or Deny")
    actions = _texts(raw.get("Action"), "Action")
    for each in actions:
        if each != "*" and not each.lower().startswith("kinesis:"):
            raise _wrong(f"Action {each[:100]} is none of kinesis")
    resources = _texts(raw.get("Resource"), "Resource")
    for each in resources:
        if each != "*" and not each.startswith("arn:"):
            raise _wrong(f"Resource {each[:200]} is no ARN")
    return _Statement(
        effect == "Deny",
        _principals(raw.get("Principal")),
        tuple(_pattern(each, re.IGNORECASE) for each in actions),
        tuple(_pattern(each) for each in resources),
    )


def _principals(raw: Any) -> tuple[str, ...]:
    if isinstance(raw, dict):
        if set(raw) != {"AWS"}:
            raise _wrong("Principal must be * or have AWS only")
        names = _texts(raw["AWS"], "Principal")
    elif raw == "*":
        names = ("*",)
    else:
        raise _wrong("Principal must be * or have AWS only")
    for each in names:
        if each != "*" and ("*" in each or "?" in each):
            raise _wrong(f"Principal {each[:200]} has a wildcard: write * alone, or an account")
        if each != "*" and not _ACCOUNT.fullmatch(each) and not _ARN_ACCOUNT.fullmatch(each):
            raise _wrong(f"Principal {each[:200]} is neither an account nor the ARN of a user")
    return names


def _names(name: str, principal: Principal) -> bool:
    if name in ("*", principal.arn):
        return True
    account = _ACCOUNT.fullmatch(name)
    return account is not None and (account[1] or name) == principal.account


def _texts(raw: Any, member: str) -> tuple[str, ...]:
    texts = raw if isinstance(raw, list) else [raw]
    if not texts or not all(isinstance(each, str) for each in texts):
        raise _wrong(f"{member} must be a text or a list of texts")
    return tuple(texts)


def _pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return the pattern of a text in which `*` stands for any characters and `?` for one."""
    # `translate` writes patterns that take no exponential time; brackets have no meaning here.
    return re.compile(translate(text.replace("[", "[[]")), flags)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; of a member that comes twice, readers would not see the same one."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _wrong("a member comes twice")
    return members


def _refuse_unknown(raw: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(set(raw) - known)
    if unknown:
        raise _wrong(f"{unknown[0][:100]} is not supported by Headrace")


def _wrong(reason: str) -> ServiceError:
    return invalid_argument(f"The policy cannot be used: {reason}.")
