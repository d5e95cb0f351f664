"""The certificate of a gateway, before it listens."""

from pathlib import Path

import pytest

from headrace.gateway.http.certificate import check_certificate
from headrace.model.error import ConfigError


def test_without_tls_there_is_nothing_to_check() -> None:
    check_certificate(None, None)


def test_a_key_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match="add --tls-certificate FILE"):
        check_certificate(None, Path("key.pem"))


@pytest.mark.parametrize("text", [None, "no certificate"])
def test_files_that_are_missing_or_no_pem_are_refused(tmp_path: Path, text: str | None) -> None:
    certificate = tmp_path / "certificate.pem"
    if text is not None:
        certificate.write_text(text)
    with pytest.raises(ConfigError, match=r"certificate\.pem cannot be used"):
        check_certificate(certificate, None)
