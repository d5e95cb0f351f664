"""PLAIN and SCRAM as a client meets them."""

import re
from base64 import b64decode, b64encode
from hashlib import new
from hmac import digest
from pathlib import Path

import pytest

from headrace.broker.auth.exchange import SaslAuthenticationFailed
from headrace.broker.auth.plain import Plain
from headrace.broker.auth.scram import HASHES, Scram
from headrace.broker.auth.user_file import UserFile
from headrace.cluster.credential import ScramCredential, salted_password
from headrace.model.error import ConfigError

PASSWORDS = {"anna": "secret", "bob": "pa\u00df"}

# -- PLAIN


@pytest.mark.parametrize("token", [b"\0anna\0secret", b"anna\0anna\0secret"])
def test_plain_takes_the_right_password(token: bytes) -> None:
    step = Plain(PASSWORDS).respond(token)

    assert step.user == "anna"
    assert step.token == b""


def test_plain_takes_any_unicode() -> None:
    assert Plain(PASSWORDS).respond("\0bob\0pa\u00df".encode()).user == "bob"


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"anna",
        b"\0anna",
        b"\0anna\0",
        b"\0\0secret",
        b"\0anna\0secret\0more",
        b"bob\0anna\0secret",
        b"\0anna\0\xff\xfe",
        b"\0anna\0wrong",
        b"\0nobody\0secret",
    ],
)
def test_plain_refuses_everything_else_without_telling_the_password(token: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailed) as failed:
        Plain(PASSWORDS).respond(token)

    assert "secret" not in str(failed.value)
    assert "wrong" not in str(failed.value).replace("is wrong", "")


def test_plain_says_the_same_of_an_unknown_user_and_a_wrong_password() -> None:
    with pytest.raises(SaslAuthenticationFailed) as unknown:
        Plain(PASSWORDS).respond(b"\0nobody\0x")
    with pytest.raises(SaslAuthenticationFailed) as wrong:
        Plain(PASSWORDS).respond(b"\0anna\0x")

    assert str(unknown.value) == str(wrong.value)


# -- the file of PLAIN


def test_users_are_read_from_lines(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("# people\n\nanna=secret\n  bob = a=b \n")
    path.chmod(0o600)

    assert UserFile(path).passwords == {"anna": "secret", "bob": "a=b"}


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("anna=secret\n")
    users = UserFile(path)

    path.write_text("anna=other-secret\n")
    users.refresh()

    assert users.passwords == {"anna": "other-secret"}


def test_a_file_that_breaks_later_keeps_its_users(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("anna=secret\n")
    users = UserFile(path)

    path.write_text("nonsense\n")
    users.refresh()
    path.unlink()
    users.refresh()

    assert users.passwords == {"anna": "secret"}


@pytest.mark.parametrize("text", ["hunter2", "=hunter2", "anna=x\nanna=hunter2"])
def test_a_bad_line_is_named_but_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)

    with pytest.raises(ConfigError, match="line") as failed:
        UserFile(path)

    assert "hunter2" not in str(failed.value)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        UserFile(tmp_path / "users")


# -- SCRAM


def credential(
    user: str = "user", password: str = "pencil", mechanism: str = "SCRAM-SHA-256"
) -> ScramCredential:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    return ScramCredential.of(
        user=user,
        mechanism=mechanism,
        salt=salt,
        salted_password=salted_password(password, salt, 4096, mechanism),
        iterations=4096,
    )


def server(*known: ScramCredential, mechanism: str = "SCRAM-SHA-256") -> Scram:
    table = {(each.user, each.mechanism): each for each in known}
    return Scram(
        mechanism,
        lambda user, kind: table.get((user, kind)),
        make_nonce=lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    )


def log_in(
    exchange: Scram,
    user: str,
    password: str,
    mechanism: str = "SCRAM-SHA-256",
    header: str = "n,,",
    before_nonce: str = "",
) -> str | None:
    """A client of our own: the user the server found, after its signature was checked."""
    name = HASHES[mechanism]
    bare = f"n={user},r=abc"
    first = exchange.respond((header + bare).encode()).token.decode()
    nonce, salt, iterations = re.fullmatch(r"r=(.+),s=(.+),i=(\d+)", first).groups()  # type: ignore[union-attr]
    salted = salted_password(password, b64decode(salt), int(iterations), mechanism)
    client_key = digest(salted, b"Client Key", name)
    unproved = f"c={b64encode(header.encode()).decode()},r={before_nonce}{nonce}"
    said = f"{bare},{first},{unproved}".encode()
    signature = digest(new(name, client_key).digest(), said, name)
    proof = b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    step = exchange.respond(f"{unproved},p={proof}".encode())
    assert step.token == b"v=" + b64encode(digest(digest(salted, b"Server Key", name), said, name))
    return step.user


def test_scram_speaks_the_example_of_rfc_7677() -> None:
    exchange = server(credential())

    first = exchange.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    last = exchange.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )

    assert first.token == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert first.user is None
    assert last.token == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert last.user == "user"


@pytest.mark.parametrize("mechanism", list(HASHES))
def test_scram_takes_the_right_password(mechanism: str) -> None:
    known = credential("anna", "secret", mechanism)

    assert log_in(server(known, mechanism=mechanism), "anna", "secret", mechanism) == "anna"


@pytest.mark.parametrize("header", ["n,,", "y,,", "n,a=anna,"])
def test_scram_takes_every_header_without_channel_binding(header: str) -> None:
    assert log_in(server(credential("anna")), "anna", "pencil", header=header) == "anna"


def test_scram_takes_a_nonce_with_the_clients_part_twice() -> None:
    """As librdkafka sent it for years; the proof covers what was sent."""
    assert log_in(server(credential("anna")), "anna", "pencil", before_nonce="abc") == "anna"


def test_scram_takes_names_with_commas_and_equal_signs() -> None:
    known = credential("CN=anna,O=x")

    assert log_in(server(known), "CN=3Danna=2CO=3Dx", "pencil") == "CN=anna,O=x"


@pytest.mark.parametrize(("user", "password"), [("anna", "wrong"), ("unknown", "pencil")])
def test_scram_refuses_any_user_only_at_the_end(user: str, password: str) -> None:
    with pytest.raises(SaslAuthenticationFailed, match="the user or the password is wrong"):
        log_in(server(credential("anna")), user, password)


def test_an_unknown_user_always_has_the_same_salt() -> None:
    first = server().respond(b"n,,n=ghost,r=x").token
    second = server().respond(b"n,,n=ghost,r=x").token
    other = server().respond(b"n,,n=other,r=x").token

    assert first == second != other


def test_scram_of_another_mechanism_is_another_credential() -> None:
    known = credential("anna", mechanism="SCRAM-SHA-512")

    with pytest.raises(SaslAuthenticationFailed):
        log_in(server(known), "anna", "pencil")


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,n=,r=x",
        b"n,,n=anna",
        b"n,,r=x",
        b"p=tls-unique,,n=anna,r=x",
        b"n,a=bob,n=anna,r=x",
        b"n,,n=an=na,r=x",
        b"n,,n=anna,r=x,tokenauth=true",
        b"\xff",
    ],
)
def test_scram_refuses_a_bad_first_message(token: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        server(credential("anna")).respond(token)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"c=biws,r=x%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        b"c=biws,r=another,p=AAAA",
        b"c=eSws,r=x%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=AAAA",
        b"c=biws,r=x%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=A",
        b"c=biws,r=x%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=AAAA",
    ],
)
def test_scram_refuses_a_bad_last_message(token: bytes) -> None:
    exchange = server(credential("anna"))
    exchange.respond(b"n,,n=anna,r=x")

    with pytest.raises(SaslAuthenticationFailed):
        exchange.respond(token)
