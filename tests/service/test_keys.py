"""API keys and signing keys: rights by role, from the store to the response, and no key in the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from web import SMALL, Served

from commands import call, refused
from helpers.private import signing_keys, write_tables
from maskedbandits.errors import UserError
from maskedbandits.service import auth
from maskedbandits.service.auth import ApiKeys, create_key, hash_key, is_own_name, revoke_key
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.secret import load_secrets, rotate_signing_key
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.tokens import ForgedToken, Token

pytest_plugins = ["service_fixtures"]

EVERYTHING = {
    "device": [("POST", "/v1/experiments/headline/decisions"), ("POST", "/v1/reports")],
    "read": [("GET", "/v1/experiments"), ("GET", "/v1/experiments/headline/state"), ("GET", "/metrics")],
    "admin": [("POST", "/v1/experiments"), ("PATCH", "/v1/experiments/headline")],
    "": [("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/openapi.json")],
}
MAY = {"device": ["device"], "backend": ["device"], "read": ["read"], "admin": ["device", "read", "admin"]}


@pytest.fixture
def made(store: Store) -> dict[str, str]:
    return {role: create_key(store, role, role, 7)[1] for role in auth.ROLES}


@pytest.fixture
def locked(registry: ExperimentRegistry, made: dict[str, str]) -> Iterator[Served]:
    with Served(registry) as service:
        service.client.key = made["admin"]
        assert service.post("/v1/experiments", SMALL).status == 201
        service.client.key = None
        yield service


def let_in(service: Served, role: str, **more: Any) -> bool:
    """Whether requests that need a role are let in: all of them, or none."""
    statuses = {service.ask(*request, body=b"{", **more).status for request in EVERYTHING[role]}
    assert len(statuses & {401, 403}) <= 1
    return not statuses & {401, 403}


@pytest.mark.parametrize(("role", "is_named"), [("device", False), ("admin", True)])
@pytest.mark.parametrize("unknown", ["lang", "x"], ids=["near", "far"])
def test_arms_are_named_only_to_readers(
    locked: Served, made: dict[str, str], role: str, is_named: bool, unknown: str
) -> None:
    """An error that suggests arms would reveal to a public key which arms come next."""
    locked.client.key = made[role]
    reply = locked.post("/v1/experiments/headline/decisions", {"eligible_arms": [unknown]})
    assert reply.status == 400
    assert reply.error.startswith(f"eligible_arms: no arm is called '{unknown}'; ")
    assert any(name in reply.error for name in ("short", "long")) == is_named
    assert ("role read" in reply.error) == (not is_named)


@pytest.mark.parametrize("role", auth.ROLES)
def test_key_has_rights_of_its_role(locked: Served, made: dict[str, str], role: str) -> None:
    locked.client.key = made[role]
    assert [each for each in EVERYTHING if each and let_in(locked, each)] == MAY[role]
    assert let_in(locked, "")


def test_key_is_required_once_one_exists(locked: Served) -> None:
    for role in filter(None, EVERYTHING):
        for request in EVERYTHING[role]:
            reply = locked.ask(*request)
            assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
            assert f"role {role}" in reply.error
    assert let_in(locked, "")


@pytest.mark.parametrize("text", ["", "Bearer", "Bearer ", "Basic {}", "{}", "Bearer {}x", "Bearer x{}", "Bearer é"])
def test_invalid_keys_are_refused(locked: Served, made: dict[str, str], text: str) -> None:
    header = {"authorization": text.format(made["admin"])}
    assert locked.get("/v1/experiments", headers=header).status == 401


def test_bearer_scheme_is_case_insensitive(locked: Served, made: dict[str, str]) -> None:
    for scheme in ("bearer", "BEARER"):
        assert locked.get("/v1/experiments", headers={"authorization": f"{scheme} {made['read']}"}).status == 200


def test_revoked_key_is_refused_while_running(locked: Served, made: dict[str, str], store: Store) -> None:
    locked.client.key = made["read"]
    assert let_in(locked, "read")
    revoke_key(store, "read", 8)
    locked.renew_keys()
    assert locked.get("/v1/experiments").status == 401


def test_first_key_closes_open_service(served: Served, store: Store) -> None:
    assert let_in(served, "admin")
    revoke_key(store, create_key(store, "read", None, 7)[0], 7)  # even one that is of no use any more
    served.renew_keys()
    assert not let_in(served, "admin")


def test_rate_limit_is_per_key(registry: ExperimentRegistry, made: dict[str, str], store: Store) -> None:
    with Served(registry, Settings(key_rate=0.001, burst=3000)) as service:
        service.client.key = made["admin"]
        statuses = [service.get("/v1/experiments").status for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        service.client.key = made["read"]
        assert service.get("/v1/experiments").status == 200


# This machine alone


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost:8080", "[::1]:8080", "127.1.2.3:1", "LOCALHOST", "localhost.:80"]
)
def test_loopback_has_all_rights_without_keys(served: Served, host: str) -> None:
    served.client.host = host
    assert all(let_in(served, role) for role in EVERYTHING)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "[", "10.0.0.1", ".", "localhost.."]
)
def test_foreign_name_for_loopback_is_refused(served: Served, host: str) -> None:
    served.client.host = host
    reply = served.get("/v1/experiments")
    assert reply.status == 403
    assert "maskedbandits key create" in reply.error
    assert not is_own_name(host.encode())


def test_only_pages_of_service_are_local(served: Served) -> None:
    for host in ("127.0.0.1:8080", "localhost:8080", "[::1]:8080"):
        served.client.host = host
        assert let_in(served, "admin", headers={"origin": f"http://{host}"})
        for origin in (
            "http://localhost:8081",
            "https://evil.example",
            "null",
            f"https://{host}",
            f"http://{host}.evil",
        ):
            assert not let_in(served, "admin", headers={"origin": origin})
    served.client.host = "LocalHost:8080"
    assert let_in(served, "admin", headers={"origin": "http://localhost:8080"})
    served.client.host = "evil.example:8080"
    assert not let_in(served, "admin", headers={"origin": "http://evil.example:8080"})


def test_cross_site_fetch_without_origin_is_refused(served: Served) -> None:
    """An image or a script at an address of the service: its existence would reveal which experiments there are."""
    for site, status in (("none", 200), ("same-origin", 200), ("same-site", 403), ("cross-site", 403)):
        for path in ("/v1/experiments/headline", "/v1/experiments", "/metrics"):
            assert served.get(path, headers={"sec-fetch-site": site}).status == status
    assert served.get("/v1/experiments/nothing", headers={"sec-fetch-site": "cross-site"}).status == 403
    assert served.get("/dashboard", headers={"sec-fetch-site": "cross-site"}).status == 200  # a link to it


def test_only_loopback_is_open() -> None:
    known = ApiKeys("0.0.0.0")  # noqa: S104
    known.refresh([])
    assert not known.is_open
    assert not known.identify_local(b"localhost", b"").roles


def test_unknown_role_has_no_rights(locked: Served, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """The service did not start with one."""
    _, key = create_key(store, "admin", "crowned", 7)
    with write_tables(store) as tx:
        tx.execute("UPDATE api_key SET role = 'king' WHERE id = 'crowned'")
    for _ in range(2):  # it is said once
        locked.app.access.keys.refresh(store.list_keys())
    locked.client.key = key
    assert not any(let_in(locked, role) for role in EVERYTHING if role)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if "unknown role" in line]
    assert [(line["key"], line["role"]) for line in lines] == [("crowned", "'king'")]


# In the store


def test_store_holds_digest_of_256_bit_key(store: Store, tmp_path: Path) -> None:
    made = {create_key(store, "device", None, 7)[1] for _ in range(20)}
    assert len(made) == 20
    assert all(len(key) == len("mb_") + 43 for key in made)
    rows = store.list_keys()
    assert {row.digest for row in rows} == {hash_key(key) for key in made}
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("bandits.db*"))
    assert not any(key[3:].encode() in kept for key in made)


@pytest.mark.parametrize("name", ["", " ", "a b", "a\nb", "x" * 65, "é"])
def test_invalid_key_name_is_refused(store: Store, name: str) -> None:
    with pytest.raises(UserError, match="name"):
        create_key(store, "device", name, 7)


def test_secrets_are_created_once(store: Store) -> None:
    first, second = load_secrets(store), load_secrets(store)
    assert first.visitor == second.visitor
    token = Token(1, 1, 0, 0, 1, 1, 1, b"0" * 11)
    assert second.ring.read(first.ring.sign(token)) == token
    assert len(store.list_signing_keys()) == 1


def test_concurrent_processes_share_secrets(store: Store, storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each finds that there are none; else two workers would not know each other's visitors."""
    with open_store(storage) as other:
        assert (store.list_signing_keys(), store.read_meta("secret_check")) == ([], None)
        first = load_secrets(other)
        with monkeypatch.context() as patch:
            stale: Iterator[list[tuple[int, bytes]]] = iter([[]])
            real_keys = store.list_signing_keys
            patch.setattr(store, "list_signing_keys", lambda: next(stale, None) or real_keys())
            patch.setattr(store, "read_meta", lambda key: None)
            second = load_secrets(store)
        assert first.visitor == second.visitor == load_secrets(other).visitor
        assert signing_keys(first.ring) == signing_keys(second.ring)
        assert len(store.list_signing_keys()) == 1


def test_rotated_keys_verify_until_dropped(store: Store) -> None:
    token = Token(1, 1, 0, 0, 1, 1, 1, b"0" * 11)
    old = load_secrets(store).ring.sign(token)
    made, dropped = rotate_signing_key(store)
    assert not dropped
    assert load_secrets(store).ring.current == made
    assert load_secrets(store).ring.read(old) == token
    _, dropped = rotate_signing_key(store, keep=1)
    assert len(dropped) == 1
    with pytest.raises(ForgedToken):
        load_secrets(store).ring.read(old)


@pytest.mark.parametrize("damage", ["secret = X''", "secret = X'00'", "id = 300", "id = -1"])
def test_damaged_signing_key_is_not_used(store: Store, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Tokens were signed with an empty key, or none could be signed."""
    token = Token(1, 1, 0, 0, 1, 1, 1, b"0" * 11)
    first = load_secrets(store).ring
    made, _ = rotate_signing_key(store)
    with write_tables(store) as tx:
        tx.execute(f"UPDATE signing_key SET {damage} WHERE id = ?", (made,))  # noqa: S608 - our own words
    for _ in range(2):  # it is said once
        assert first.read(load_secrets(store).ring.sign(token)) == token
    assert capsys.readouterr().err.count("signing key is damaged and not used") == 1
    with write_tables(store) as tx:
        tx.execute("DELETE FROM signing_key WHERE id = ?", (first.current,))
    with pytest.raises(UserError, match="damaged") as caught:
        load_secrets(store)
    assert "\n" not in str(caught.value)
    rotate_signing_key(store, keep=0)
    assert load_secrets(store).ring.sign(token)


def test_old_signing_keys_can_be_dropped_at_limit(store: Store) -> None:
    for _ in range(256):
        rotate_signing_key(store)
    with pytest.raises(UserError, match="--keep 20"):
        rotate_signing_key(store)
    made, dropped = rotate_signing_key(store, keep=20)
    assert len(dropped) == 236
    assert len(store.list_signing_keys()) == 21
    assert load_secrets(store).ring.current == made


# From the command line


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/keys.db"


def test_key_is_printed_once(url: str) -> None:
    done = call("key", "create", "--role", "device", "--name", "shop", "--storage", url)
    assert done.exit_code == 0, done.output
    key = done.stdout.splitlines()[0]
    assert key.startswith("mb_")
    listed = call("key", "list", "--storage", url)
    assert "shop  device   created 20" in listed.stdout
    assert key not in listed.stdout
    assert call("key", "revoke", "shop", "--storage", url).exit_code == 0
    assert "revoked 20" in call("key", "list", "--storage", url).stdout
    refused(call("key", "revoke", "shop", "--storage", url), "is already revoked")
    refused(call("key", "revoke", "shpo", "--storage", url), "did you mean 'shop'?")
    refused(call("key", "create", "--role", "read", "--name", "shop", "--storage", url), "already")


def test_programs_read_json(url: str) -> None:
    made = json.loads(call("key", "create", "--role", "read", "--storage", url, "--json").stdout)
    assert set(made) == {"name", "role", "experiments", "key"}
    (listed,) = json.loads(call("key", "list", "--storage", url, "--json").stdout)
    assert (listed["name"], listed["role"], listed["revoked_hour"]) == (made["name"], "read", None)
    rotated = json.loads(call("key", "rotate", "--keep", "0", "--storage", url, "--json").stdout)
    assert rotated == {"signing_key": 0, "dropped": []}
    assert json.loads(call("key", "revoke", made["name"], "--storage", url, "--json").stdout)["revoked"] is True


def test_storage_can_be_a_variable(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASKEDBANDITS_STORAGE", url)
    assert call("key", "create", "--role", "admin").exit_code == 0
    assert "admin" in call("key", "list").stdout


def test_mistakes_are_one_line(url: str) -> None:
    refused(call("key", "list", "--storage", url), "no such file")
    refused(call("key", "create", "--role", "owner", "--storage", url), "Invalid value for '--role'")
    refused(call("key", "list", "--storage", "mysql://x"), "storage: give a URL")
    call("key", "create", "--role", "read", "--storage", url)
    refused(call("key", "create", "--role", "read", "--name", "a b", "--storage", url), "without spaces")
