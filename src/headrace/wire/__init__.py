"""Kafka's protocol without I/O: bytes in, messages out, and back. Nothing here touches a socket.

Reading order: `framing` cuts the byte stream into frames, `api` says what is served, `request`
turns a frame into a header and a body, `response` packs an answer. `produce_request`,
`produce_response`, `fetch_request` and `fetch_response` are written by hand, because payloads must
not be copied and answers must cost microseconds. All others stand on kio's schemas:
`message_check` checks every count before kio's reader sees it, `packer` writes plain dictionaries.
"""

import sys

# kio registers its types with Hypothesis where that is installed: a fifth of a second in every
# process of a developer's machine, for nothing that is used here.
_absent = "hypothesis" not in sys.modules
if _absent:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
try:
    import kio.static.primitive  # noqa: F401
finally:
    if _absent:
        del sys.modules["hypothesis"]
