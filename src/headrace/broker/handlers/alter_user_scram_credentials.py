"""AlterUserScramCredentials (51), version 0: set and delete credentials (KIP-554).

The client sends its password salted and hashed; the two keys that are kept follow from that. If one
change of a user is invalid, none of that user's changes is made.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import cluster_code
from headrace.broker.handlers.describe_user_scram_credentials import MECHANISMS
from headrace.cluster.controller import Controller
from headrace.cluster.credential import MIN_ITERATIONS, ScramCredential, credential_problem
from headrace.cluster.entity_size import entity_problem
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.ALTER_USER_SCRAM_CREDENTIALS


@dataclass(frozen=True, slots=True)
class _Change:
    user: str
    mechanism: str
    credential: ScramCredential | None
    """None deletes."""


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(AlterUserScramCredentialsRequest)
    users = dict.fromkeys(each.name for each in request.deletions)
    users |= dict.fromkeys(each.name for each in request.upsertions)
    if not broker.guard.may_on_cluster(call, Operation.ALTER):
        denied = ErrorCode.cluster_authorization_failed
        message = "not allowed to alter the cluster"
        return {"results": [_failed(user, denied, message) for user in users]}
    changes, rejected = _read(request)
    outcome = await broker.controller.administer(
        lambda controller: _apply(controller, changes, rejected)
    )
    return {
        "results": [
            _failed(user, cluster_code(outcome[user].error), outcome[user].message)
            if user in outcome
            else {"user": user}
            for user in users
        ]
    }


def _read(request: AlterUserScramCredentialsRequest) -> tuple[list[_Change], dict[str, Rejection]]:
    """Return the valid changes, and the users with an invalid one."""
    changes: list[_Change] = []
    rejected: dict[str, Rejection] = {}
    for deletion in request.deletions:
        mechanism = MECHANISMS.get(deletion.mechanism, str(deletion.mechanism))
        problem = credential_problem(deletion.name, mechanism, MIN_ITERATIONS)
        if problem is not None:
            rejected[deletion.name] = problem
        changes.append(_Change(deletion.name, mechanism, None))
    for wanted in request.upsertions:
        mechanism = MECHANISMS.get(wanted.mechanism, str(wanted.mechanism))
        problem = credential_problem(wanted.name, mechanism, wanted.iterations)
        if problem is None and not (wanted.salt and wanted.salted_password):
            problem = Rejection(ClusterError.UNACCEPTABLE_CREDENTIAL, "salt or password is empty")
        if problem is not None:
            rejected[wanted.name] = problem
            continue
        credential = ScramCredential.of(
            user=wanted.name,
            mechanism=mechanism,
            salt=bytes(wanted.salt),
            salted_password=bytes(wanted.salted_password),
            iterations=wanted.iterations,
        )
        problem = entity_problem(credential, ClusterError.UNACCEPTABLE_CREDENTIAL)
        if problem is not None:
            rejected[wanted.name] = problem
        changes.append(_Change(wanted.name, mechanism, credential))
    for (user, mechanism), times in Counter(
        (each.user, each.mechanism) for each in changes
    ).items():
        if times > 1:
            rejected[user] = Rejection(
                ClusterError.DUPLICATE_RESOURCE, f"{mechanism} is listed twice for this user"
            )
    return changes, rejected


def _apply(
    controller: Controller, changes: list[_Change], rejected: dict[str, Rejection]
) -> dict[str, Rejection]:
    known = controller.state.credentials
    for change in changes:
        if change.credential is None and (change.user, change.mechanism) not in known:
            rejected.setdefault(
                change.user,
                Rejection(ClusterError.RESOURCE_NOT_FOUND, "this user has no such credential"),
            )
    for change in changes:
        if change.user in rejected:
            continue
        if change.credential is None:
            controller.remove_credential(change.user, change.mechanism)
        else:
            controller.put_credential(change.credential)
    return rejected


def _failed(user: str, code: ErrorCode, message: str) -> dict[str, Any]:
    return {"user": user, "error_code": code, "error_message": message}
