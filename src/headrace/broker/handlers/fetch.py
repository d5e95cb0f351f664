"""Fetch (1), versions 4 to 18: records from partitions, waiting for them if the client does.

Records go out as slices of segment files; a small slice is read instead (`fetch.fetch_result`).
The work is in `broker.fetch`. Fetches of a follower that repeat themselves are served by
`broker.fastpath.leader_fetch`.
"""

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.fetch.consumer_fetch import ConsumerFetch
from headrace.broker.fetch.follower_fetch import FollowerFetch
from headrace.broker.fetch.session_fetch import FollowerSessionFetch, SessionFetch
from headrace.broker.network.connection import Answer
from headrace.wire.api import ApiKey
from headrace.wire.fetch_request import FIRST_TOPIC_ID, FetchRequest
from headrace.wire.fetch_response import pack_fetch_response

API = ApiKey.FETCH


def handle(broker: Broker, call: Call) -> Answer:
    request: FetchRequest = call.body
    admission = broker.fetch_sessions.admit(
        request, broker.clock.monotonic_ms(), by_id=call.version >= FIRST_TOPIC_ID
    )
    if admission.error:
        return pack_fetch_response(
            call.version, call.request.header.correlation_id, (), error_code=admission.error
        )
    session = admission.session if admission.incremental else None
    if request.replica_id >= 0:
        if session is not None:
            return FollowerSessionFetch(broker, call, request, admission, session).run()
        return FollowerFetch(broker, call, request, admission).run()
    # A leader may send a client on the rack of a follower there at any time (KIP-392).
    to_racks = request.rack_id and broker.settings["replica.selector.class"]
    if session is not None and not to_racks:
        return SessionFetch(broker, call, request, admission, session).run()
    return ConsumerFetch(broker, call, request, admission).run()
