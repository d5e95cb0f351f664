"""TLS sockets for kazoo, with a context of ours.

kazoo's own TLS always believes the machine's authorities besides the one it is given, reads the
files again at every connect, and waits in `select` while a reply lies decrypted in the socket.
"""

import ssl
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads, with sockets from one `ssl.SSLContext`.

    Attributes:
        untrusted: why the certificate of a server was not believed, by the server's address.
    """

    name = "headrace_tls_handler"

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self._context = context
        self.untrusted: dict[tuple[str, int], str] = {}

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> ssl.SSLSocket:
        """Connect and shake hands, within `timeout` seconds each."""
        plain = super().create_connection(address=address, timeout=timeout)
        try:
            return self._context.wrap_socket(plain, server_hostname=hostname)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            self.untrusted[address] = error.verify_message
            raise
        except BaseException:
            plain.close()
            raise

    def select(
        self, readers: list[Any], writers: list[Any], others: list[Any], timeout: float | None
    ) -> Any:
        decrypted = [
            each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending() > 0
        ]
        if decrypted:
            # The kernel may have nothing, but look at the other sockets too: requests wait there.
            timeout = 0
        ready = super().select(readers, writers, others, timeout)
        return [*decrypted, *(each for each in ready[0] if each not in decrypted)], *ready[1:]
