"""AlterClientQuotas (49), versions 0 and 1 (KIP-546). Each entity is changed on its own."""

from typing import Any

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntryData

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import cluster_code
from headrace.cluster.controller import Controller
from headrace.cluster.quota import QuotaEntity
from headrace.cluster.rejection import Rejection
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.ALTER_CLIENT_QUOTAS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(AlterClientQuotasRequest)
    if not broker.guard.may_on_cluster(call, Operation.ALTER_CONFIGS):
        denied = ErrorCode.cluster_authorization_failed
        message = "not allowed to alter the cluster's configs"
        return {"entries": [_answer(entry, denied, message) for entry in request.entries]}

    def alter(controller: Controller) -> list[Rejection | None]:
        return [
            controller.alter_quota(
                _entity(entry),
                {op.key: None if op.remove else op.value for op in entry.ops},
                validate_only=request.validate_only,
            )
            for entry in request.entries
        ]

    outcomes = await broker.controller.administer(alter)
    return {
        "entries": [
            _answer(entry, ErrorCode.none, None)
            if rejection is None
            else _answer(entry, cluster_code(rejection.error), rejection.message)
            for entry, rejection in zip(request.entries, outcomes, strict=True)
        ]
    }


def _entity(entry: EntryData) -> QuotaEntity:
    return tuple((each.entity_type, each.entity_name) for each in entry.entity)


def _answer(entry: EntryData, code: ErrorCode, message: str | None) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": message,
        "entity": [
            {"entity_type": each.entity_type, "entity_name": each.entity_name}
            for each in entry.entity
        ],
    }
