"""DescribeAccountSettings and UpdateAccountSettings."""

from typing import Any

from headrace.gateway.kinesis.protocol.timestamp import Timestamp
from headrace.gateway.kinesis.service import KinesisService, Request, Response
from headrace.gateway.kinesis.store.stream_topic import ACCOUNT_NAME
from headrace.gateway.kinesis.stream.billing_commitment import BillingCommitment, CommitmentStatus


def describe_account_settings(service: KinesisService, request: Request) -> Response:
    return _fields(service, service.billing_commitment)


def update_account_settings(service: KinesisService, request: Request) -> Response:
    status = request["MinimumThroughputBillingCommitment"]["Status"]

    def step(raw: dict[str, Any] | None) -> dict[str, Any]:
        current = BillingCommitment.from_json(raw)
        now_ms = service.now_ms()
        enable = status == CommitmentStatus.ENABLED
        return (current.enabled(now_ms) if enable else current.disabled(now_ms)).as_json()

    service.store.change_document(ACCOUNT_NAME, step)
    return _fields(service, service.billing_commitment)


def _fields(service: KinesisService, commitment: BillingCommitment) -> Response:
    fields: dict[str, Any] = {"Status": commitment.status(service.now_ms()).value}
    times = {
        "StartedAt": commitment.started_ms,
        "EndedAt": commitment.ends_ms,
        "EarliestAllowedEndAt": commitment.earliest_end_ms,
    }
    fields |= {name: Timestamp(ms) for name, ms in times.items() if ms is not None}
    return {"MinimumThroughputBillingCommitment": fields}
