"""Settings of the service: flags override the environment, which overrides a TOML file, which overrides the defaults.

    storage = "postgresql://bandits@db/bandits"      in the file that --config names
    MASKEDBANDITS_STORAGE=sqlite:////var/lib/bandits.db
    maskedbandits serve --storage sqlite:///bandits.db

Each setting is defined once, as a field of `Settings` with its type, default, limits and description. Names and values
in the file, variables and the options of ``maskedbandits serve`` all follow from that. Unknown names are refused with
the nearest known one.
"""

from __future__ import annotations

import ipaddress
import math
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, inspect

from maskedbandits.errors import (
    UserError,
    WrongValueError,
    abbreviate,
    check_int,
    check_line,
    check_number,
    suggest_nearest,
)

PREFIX = "MASKEDBANDITS_"
OTHER_VARIABLES = {  # with the same prefix, and no settings
    "CACHE": "Folder of the machine code. Beside the sources, or in the user's cache, unless set.",
    "COMPILE": "`now` makes a live policy wait until it is compiled. Otherwise it starts interpreted.",
    "CONFIG": "The TOML file with settings, as with `--config`.",
    "DATA": "Folder of the data sets. In the user's cache, unless set.",
    "KEY": "The key with which `maskedbandits replay --server` asks the service.",
    "SECRET": "The secret of the service, in place of its key file.",
    "SECRET_FILE": "A file that contains the secret of the service.",
}
EXPOSED_DEFAULTS = {"token_rate": 1.0}  # where other machines can send requests
FLAG = {"is_flag": True}  # also an option of the command line


def is_origin(text: str) -> bool:
    """Tell whether a browser would send this as an Origin, without a path or a slash at the end."""
    if text == "*":
        return True
    scheme, separator, rest = text.partition("://")
    return bool(separator and scheme and rest) and text.isascii() and not set(rest) & set("/?# @,")


def is_network(text: str) -> bool:
    """Tell whether a text is an address or a network."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


ORIGINS = {"check": is_origin, "wanted": "a list of origins such as ['https://shop.example'], or ['*']"}
NETWORKS = {"check": is_network, "wanted": "a list of addresses or networks such as ['10.0.0.0/8']"}
Rate = Annotated[float, Meta(ge=0, le=1e6)]


class Settings(Struct, frozen=True):
    """All settings."""

    storage: Annotated[str, Meta(description="Database, as a SQLite or PostgreSQL URL.", extra=FLAG)] = (
        "sqlite:///bandits.db"
    )
    host: Annotated[
        str, Meta(description="Address to listen on. One that other machines reach requires keys.", extra=FLAG)
    ] = "127.0.0.1"
    port: Annotated[
        int,
        Meta(
            ge=0,
            le=65_535,
            description="Port to listen on; 0 for any free one.",
            extra=FLAG,
        ),
    ] = 8080
    workers: Annotated[
        int, Meta(ge=1, le=256, description="Worker processes; several require PostgreSQL.", extra=FLAG)
    ] = 1
    log_format: Annotated[Literal["json", "text"], Meta(description="Form of the log on standard error.")] = "json"
    access_log: Annotated[bool, Meta(description="Log a line for every request.", extra=FLAG)] = False
    body_limit: Annotated[int, Meta(ge=1 << 10, le=1 << 30, description="Largest body of a request, in bytes.")] = (
        1 << 20
    )
    cors: Annotated[tuple[str, ...], Meta(description="Origins whose pages may call the service.", extra=ORIGINS)] = ()
    trusted_proxies: Annotated[
        tuple[str, ...],
        Meta(
            description="Proxies whose X-Forwarded-For is trusted; unless given, those on this machine.", extra=NETWORKS
        ),
    ] = ()
    address_rate: Annotated[
        Rate, Meta(description="Requests a second of devices from one address; 0 for no limit.")
    ] = 10.0
    key_rate: Annotated[
        Rate, Meta(description="Requests a second with one key, which many devices may share; 0 for no limit.")
    ] = 1000.0
    token_rate: Annotated[Rate, Meta(description="Reports a second with one token; 0 for no limit.")] = 0.0
    burst: Annotated[
        float, Meta(ge=1e-3, le=3600, description="Seconds of its rate that a caller may use at once.")
    ] = 10.0
    queue: Annotated[int, Meta(ge=1, le=10_000_000, description="Reports that may wait to be written.")] = 20_000
    poll: Annotated[float, Meta(ge=0.01, le=10, description="Seconds between two reads of the log.")] = 0.1
    snapshot_every: Annotated[int, Meta(ge=1, le=1 << 40, description="Events between two snapshots.")] = 50_000
    retention_days: Annotated[
        int, Meta(ge=0, le=36_500, description="Days after which events are removed; 0 keeps them for ever.")
    ] = 365
    stop_after: Annotated[
        float, Meta(ge=0, le=3600, description="Seconds that open requests get to finish when the service stops.")
    ] = 30.0
    simulation: Annotated[
        bool, Meta(description="Accept experiments with times that real devices refuse, for simulated visitors.")
    ] = False

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        return is_loopback(self.host)


class Field(NamedTuple):
    """A setting as its field defines it."""

    kind: inspect.Type
    default: Any
    description: str
    extra: dict[str, Any]


@cache
def list_fields() -> dict[str, Field]:
    """Return all settings by name."""
    info = inspect.type_info(Settings)
    assert isinstance(info, inspect.StructType)  # noqa: S101 -- it is one
    fields = {}
    for field in info.fields:
        kind, description = field.type, ""
        extra: dict[str, Any] = {}
        while isinstance(kind, inspect.Metadata):
            description = (kind.extra_json_schema or {}).get("description", description)
            extra |= kind.extra or {}
            kind = kind.type
        fields[field.name] = Field(kind, field.default, description, extra)
    return fields


def is_loopback(host: str) -> bool:
    """Tell whether an address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def hide_password(storage: str) -> str:
    """Return a storage URL without its password."""
    parts = urlsplit(storage)
    if parts.scheme == "sqlite" or "@" not in parts.netloc:
        return storage.partition("?")[0]
    user = parts.username or ""
    return parts._replace(netloc=f"{user}@{parts.netloc.rpartition('@')[2]}", query="").geturl()


def load_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None = None, config: str | os.PathLike[str] | None = None
) -> Settings:
    """Return the settings from all sources; flags that were not given are None."""
    variables = os.environ if environment is None else environment
    config = config or variables.get(f"{PREFIX}CONFIG") or None
    values: dict[str, Any] = {} if config is None else _read_file(Path(config))
    values |= _read_environment(variables)
    for name, value in flags.items():
        if value is not None:
            values[name] = _check(f"--{name.replace('_', '-')}", name, value)
    settings = Settings(**values)
    is_exposed = not settings.is_loopback or bool(settings.trusted_proxies)
    return Settings(**{**EXPOSED_DEFAULTS, **values}) if is_exposed else settings


def _read_file(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid TOML: {str(error).partition(chr(10))[0]}") from None
    for name in values:
        if name not in list_fields():
            raise UserError(f"{path}: no setting is called {abbreviate(name)}{suggest_nearest(name, list_fields())}")
    return {name: _check(f"{path}: {name}", name, value) for name, value in values.items()}


def _read_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in variables: lists with commas, booleans as 1 or 0."""
    found = {}
    for variable, text in variables.items():
        name = variable.removeprefix(PREFIX).lower()
        if not variable.startswith(PREFIX) or variable.removeprefix(PREFIX) in OTHER_VARIABLES or not text:
            continue
        if name in list_fields():
            found[name] = _check(variable, name, _parse(variable, name, text))
        elif (hint := suggest_nearest(name, list_fields())).startswith(
            "; did"
        ):  # other programs may use the prefix, too
            raise UserError(f"{variable}: no setting is called {name!r}{hint}")
    return found


def _parse(variable: str, name: str, text: str) -> Any:
    """Return the value of a variable, by the type of the setting."""
    kind = list_fields()[name].kind
    if isinstance(kind, inspect.BoolType):
        if text.lower() not in ("0", "1", "false", "true"):
            raise WrongValueError(variable, text, "1 or 0")
        return text.lower() in ("1", "true")
    if isinstance(kind, inspect.VarTupleType):
        return [part.strip() for part in text.split(",") if part.strip()]
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        try:
            return int(text) if isinstance(kind, inspect.IntType) else float(text)
        except ValueError:
            raise WrongValueError(variable, text, "a number") from None
    return text


def _check(where: str, name: str, value: Any) -> Any:
    field = list_fields()[name]
    kind = field.kind
    try:
        if isinstance(kind, inspect.BoolType):
            return _check_bool(where, value)
        if isinstance(kind, inspect.IntType):
            return check_int(where, value, kind.ge or 0, kind.le)
        if isinstance(kind, inspect.FloatType):
            return check_number(where, value, kind.ge or 0.0, kind.le or math.inf)
        if isinstance(kind, inspect.VarTupleType):
            return _check_list(where, value, **field.extra)
        if isinstance(kind, inspect.LiteralType):
            return _check_choice(where, value, kind.values)
        return check_line(where, value)
    except WrongValueError as error:  # a storage may contain a password
        raise UserError(f"{where}: give {error.wanted}") if name == "storage" else error from None


def _check_bool(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise WrongValueError(name, value, "true or false")
    return value


def _check_choice(name: str, value: object, choices: Sequence[Any]) -> object:
    if value not in choices:
        raise WrongValueError(name, value, " or ".join(choices))
    return value


def _check_list(name: str, value: object, check: Callable[[str], bool], wanted: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) and check(each) for each in value):
        raise WrongValueError(name, value, wanted)
    return tuple(value)


def format_limits(name: str) -> str:
    """Return the values that a setting accepts, in a few words."""
    kind = list_fields()[name].kind
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        noun = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
        return f"{noun} from {kind.ge or 0:,.15g} to {kind.le:,.15g}" if kind.le is not None else noun
    if isinstance(kind, inspect.BoolType):
        return "`true` or `false`"
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(f"`{each}`" for each in kind.values)
    return str(list_fields()[name].extra.get("wanted", "a text"))


def format_table() -> str:
    """Return all settings as a Markdown table."""
    rows = ["| setting | default | accepts | meaning |", "|---|---|---|---|"]
    for name, field in list_fields().items():
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        text = str(default).lower() if isinstance(default, bool) else default
        rows.append(f"| `{name}` | `{text}` | {format_limits(name)} | {field.description} |")
    return "\n".join(rows)


def encode_settings(settings: Settings) -> dict[str, Any]:
    """Return settings as plain values, for another process."""
    return dict(msgspec.to_builtins(settings))


def decode_settings(values: Mapping[str, Any]) -> Settings:
    """Return settings from plain values."""
    return msgspec.convert(values, Settings)
