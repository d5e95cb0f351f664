"""UnregisterBroker (64), version 0: forget a broker that will not come back (KIP-500).

A broker is registered only while it runs, so a broker that has stopped is out of the cluster
already. What is left of it, its own configuration, goes. Its replicas stay where they are, as in
Kafka: a reassignment moves them.
"""

from typing import Any

from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import cluster_code
from headrace.model.ids import BrokerId
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.UNREGISTER_BROKER


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(UnregisterBrokerRequest)
    if not broker.guard.may_on_cluster(call, Operation.ALTER):
        return {"error_code": ErrorCode.cluster_authorization_failed}
    broker_id = BrokerId(int(request.broker_id))
    rejection = await broker.controller.administer(
        lambda controller: controller.unregister(broker_id)
    )
    if rejection is None:
        return {"error_code": ErrorCode.none}
    return {"error_code": cluster_code(rejection.error), "error_message": rejection.message}
