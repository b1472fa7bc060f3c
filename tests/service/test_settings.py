"""Settings: precedence of sources, and one-line errors that suggest the nearest name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maskedbandits.errors import UserError
from maskedbandits.service.server.settings import (
    Settings,
    decode_settings,
    encode_settings,
    format_limits,
    hide_password,
    is_loopback,
    list_fields,
    load_settings,
)


def test_defaults_bind_to_this_machine_alone() -> None:
    made = load_settings({}, {})
    assert made == Settings()
    assert made.is_loopback
    assert made.storage == "sqlite:///bandits.db"


def test_exposed_service_has_rate_limits() -> None:
    local = load_settings({}, {})
    assert (local.address_rate, local.key_rate, local.token_rate) == (10.0, 1000.0, 0.0)
    exposed = load_settings({"host": "0.0.0.0"}, {"MASKEDBANDITS_TOKEN_RATE": "0"})  # noqa: S104
    assert (exposed.address_rate, exposed.token_rate) == (10.0, 0.0)
    behind = load_settings({}, {"MASKEDBANDITS_TRUSTED_PROXIES": "127.0.0.1"})  # it lets others ask this machine
    assert (behind.address_rate, behind.token_rate) == (10.0, 1.0)


def test_defaults_pass_their_own_checks() -> None:
    defaults = {name: field.default for name, field in list_fields().items()}
    assert load_settings(defaults, {}) == Settings()


def test_limits_are_described() -> None:
    described = {name: format_limits(name) for name in ("port", "poll", "access_log", "storage")}
    assert described == {
        "port": "a whole number from 0 to 65,535",
        "poll": "a number from 0.01 to 10",
        "access_log": "`true` or `false`",
        "storage": "a text",
    }


def test_settings_survive_the_way_to_a_worker() -> None:
    settings = load_settings({"cors": ["https://a.example"], "workers": 3, "poll": 0.5}, {})
    assert decode_settings(json.loads(json.dumps(encode_settings(settings)))) == settings


def test_flags_override_environment_and_file(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text('port = 1\nworkers = 2\nqueue = 3\ncors = ["https://shop.example"]\n', encoding="utf-8")
    environment = {"MASKEDBANDITS_PORT": "4", "MASKEDBANDITS_WORKERS": "5", "MASKEDBANDITS_CONFIG": str(file)}
    made = load_settings({"port": 6, "workers": None}, environment)
    assert (made.port, made.workers, made.queue, made.cors) == (6, 5, 3, ("https://shop.example",))
    other = tmp_path / "other.toml"
    other.write_text("queue = 7\n", encoding="utf-8")
    assert load_settings({}, environment, config=other).queue == 7


def test_variables_are_parsed_by_type() -> None:
    variables = {"ACCESS_LOG": "true", "CORS": "https://a.example, http://b.example:8000", "POLL": "0.5", "QUEUE": "9"}
    made = load_settings({}, {f"MASKEDBANDITS_{name}": text for name, text in variables.items()})
    assert made.access_log is True
    assert made.cors == ("https://a.example", "http://b.example:8000")
    assert (made.poll, made.queue) == (0.5, 9)


def test_foreign_variables_are_ignored() -> None:
    others = {"MASKEDBANDITS_CACHE": "/x", "MASKEDBANDITS_COMPILE": "now", "MASKEDBANDITS_ZZZ": "1", "PORT": "x"}
    assert load_settings({}, {**others, "MASKEDBANDITS_PORT": ""}) == Settings()


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"MASKEDBANDITS_WORKER": "2"}, "did you mean 'workers'?"),
        ({"MASKEDBANDITS_PORT": "http"}, "MASKEDBANDITS_PORT = 'http': give a number"),
        ({"MASKEDBANDITS_PORT": "70000"}, "MASKEDBANDITS_PORT = 70000"),
        ({"MASKEDBANDITS_ACCESS_LOG": "maybe"}, "MASKEDBANDITS_ACCESS_LOG = 'maybe': give 1 or 0"),
        ({"MASKEDBANDITS_CORS": "https://a.example/"}, "give a list of origins"),
        ({"MASKEDBANDITS_CORS": "shop.example"}, "give a list of origins"),
        ({"MASKEDBANDITS_TRUSTED_PROXIES": "proxy"}, "give a list of addresses or networks"),
    ],
)
def test_mistakes_in_environment_are_named(environment: dict[str, str], complaint: str) -> None:
    with pytest.raises(UserError) as refused:
        load_settings({}, environment)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prot = 1", "did you mean 'port'?"),
        ("port = true", "service.toml: port = True"),
        ("access_log = 1", "service.toml: access_log = 1: give true or false"),
        ("cors = '*'", "give a list of origins"),
        ("[port]\nx = 1", "give a whole number"),
        ("port = ", "service.toml: not valid TOML"),
        ("poll = 0", "give a number in [0.01, 10]"),
        ("storage = ''", "service.toml: storage: give a text"),
        ("port = " + "9" * 5000, "service.toml: not valid TOML"),
    ],
)
def test_mistakes_in_file_are_named(text: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("service.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as refused:
        load_settings({}, {}, config="service.toml")
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        load_settings({}, {}, config=tmp_path / "none.toml")
    with pytest.raises(UserError, match="cannot be read"):
        load_settings({}, {}, config=tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(UserError, match="not valid TOML"):
        load_settings({}, {}, config=tmp_path / "bytes.toml")


def test_errors_name_the_flag() -> None:
    with pytest.raises(UserError, match="--body-limit = 5: give"):
        load_settings({"body_limit": 5}, {})


def test_errors_hide_passwords() -> None:
    with pytest.raises(UserError) as refused:
        load_settings({"storage": "postgresql://u:secret\n@db/x"}, {})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("storage", "printed"),
    [
        ("postgresql://u:secret@db:5432/x?password=secret", "postgresql://u@db:5432/x"),
        ("postgresql://:secret@db/x", "postgresql://@db/x"),
        ("postgresql://db/x?sslpassword=secret", "postgresql://db/x"),
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("sqlite:////var/lib/a@b.db", "sqlite:////var/lib/a@b.db"),
    ],
)
def test_storage_is_printed_without_password(storage: str, printed: str) -> None:
    assert hide_password(storage) == printed


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],  # noqa: S104
)
def test_loopback_addresses_are_known(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
