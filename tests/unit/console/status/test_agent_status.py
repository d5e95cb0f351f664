"""The status of an agent."""

import json
from collections.abc import Callable

from headrace.console.status.agent_status import fetch_agent_status


def test_an_agent_of_flumes_own_serves_numbers_alone(serve: Callable[[bytes], str]) -> None:
    served = {"CHANNEL.c1": {"Type": "CHANNEL", "ChannelSize": "7", "StartTime": "nan"}, "X.y": {}}
    (part,) = fetch_agent_status("a1", serve(json.dumps(served).encode())).parts
    assert (part.kind, part.name, part.numbers) == ("channel", "c1", {"ChannelSize": 7.0})
    assert (part.channels, part.topics) == ((), ())
