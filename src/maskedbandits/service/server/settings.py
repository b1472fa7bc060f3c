"""Settings of the service: a flag over the environment over a TOML file over the defaults.

    storage = "postgresql://bandits@db/bandits"      in the file that --config names
    MASKEDBANDITS_STORAGE=sqlite:////var/lib/bandits.db
    maskedbandits serve --storage sqlite:///bandits.db

All have the same names. A name that nobody reads is refused, and the nearest that somebody does is named.
"""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from maskedbandits.errors import UserError, WrongValueError, check_int, line, nearest, number, shown

PREFIX = "MASKEDBANDITS_"
OTHERS = ("CACHE", "COMPILE", "CONFIG", "DATA", "KEY", "SECRET", "SECRET_FILE")  # variables that are no settings
EXPOSED = {"address_rate": 100.0, "token_rate": 1.0}  # defaults where others can ask, too, if by way of a proxy
CORS = "a list of origins such as ['https://shop.example'], or ['*']"
PROXIES = "a list of addresses or networks such as ['10.0.0.0/8']"


@dataclass(frozen=True)
class Settings:
    """All settings, checked."""

    storage: str = "sqlite:///bandits.db"
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    access_log: bool = False  # a line for every request
    body_limit: int = 1 << 20  # bytes of a request
    cors: tuple[str, ...] = ()  # origins whose pages may ask
    trusted_proxies: tuple[str, ...] = ()  # whose X-Forwarded-For is believed
    address_rate: float = 0.0  # requests a second from one address; 0: no limit, as where only this machine asks
    key_rate: float = 0.0  # with one key; a device's is often all devices' together
    token_rate: float = 0.0  # reports a second with one token
    burst: float = 10.0  # seconds of its rate that may come at once
    queue: int = 20_000  # reports that may wait to be written
    poll: float = 0.1  # seconds between two looks at the log
    snapshot_every: int = 50_000  # events
    stop_after: float = 30.0  # seconds that requests have to end when the service stops
    simulation: bool = False  # accept experiments with times in which no person's device takes part

    @property
    def is_loopback(self) -> bool:
        """Tell whether only this machine can reach it."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Tell whether an address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def without_password(storage: str) -> str:
    """Return where the storage is, without what opens it: fit to be printed."""
    parts = urlsplit(storage)
    if parts.scheme == "sqlite" or "@" not in parts.netloc:
        return storage.partition("?")[0]
    user = parts.username or ""
    return parts._replace(netloc=f"{user}@{parts.netloc.rpartition('@')[2]}", query="").geturl()


def gathered(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None = None, config: str | os.PathLike[str] | None = None
) -> Settings:
    """Return the settings: what is None among the flags was not given."""
    variables = os.environ if environment is None else environment
    config = config or variables.get(f"{PREFIX}CONFIG") or None
    values: dict[str, Any] = {} if config is None else _from_file(Path(config))
    values |= _from_environment(variables)
    for name, value in flags.items():
        if value is not None:
            values[name] = _checked(f"--{name.replace('_', '-')}", name, value)
    made = Settings(**values)
    return made if made.is_loopback and not made.trusted_proxies else Settings(**{**EXPOSED, **values})


def _from_file(path: Path) -> dict[str, Any]:
    """Return what a TOML file sets."""
    try:
        known = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid TOML: {str(error).partition(chr(10))[0]}") from None
    for name in known:
        if name not in CHECKS:
            raise UserError(f"{path}: no setting is called {shown(name)}{nearest(name, CHECKS)}")
    return {name: _checked(f"{path}: {name}", name, value) for name, value in known.items()}


def _from_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return what variables set: lists with commas, truth as 1 or 0."""
    found = {}
    for variable, text in variables.items():
        name = variable.removeprefix(PREFIX).lower()
        if not variable.startswith(PREFIX) or variable.removeprefix(PREFIX) in OTHERS or not text:
            continue
        if name in CHECKS:
            found[name] = _checked(variable, name, _parsed(variable, name, text))
        elif (hint := nearest(name, CHECKS)).startswith("; did"):  # others may have variables of this kind, too
            raise UserError(f"{variable}: no setting is called {name!r}{hint}")
    return found


def _parsed(variable: str, name: str, text: str) -> Any:
    """Return the value that a text stands for, by the type of the default."""
    default = getattr(Settings, name)
    if isinstance(default, bool):
        if text.lower() not in ("0", "1", "false", "true"):
            raise WrongValueError(variable, text, "1 or 0")
        return text.lower() in ("1", "true")
    if isinstance(default, tuple):
        return [part.strip() for part in text.split(",") if part.strip()]
    if isinstance(default, int | float):
        try:
            return type(default)(text)
        except ValueError:
            raise WrongValueError(variable, text, "a number") from None
    return text


def _checked(where: str, name: str, value: Any) -> Any:
    try:
        return CHECKS[name](where, value)
    except WrongValueError as error:  # a storage may hold a password
        raise UserError(f"{where}: give {error.wanted}") if name == "storage" else error from None


def _truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise WrongValueError(name, value, "true or false")
    return value


def _listed(wanted: str, is_one: Callable[[str], bool]) -> Callable[[str, object], tuple[str, ...]]:
    def check(name: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) and is_one(each) for each in value):
            raise WrongValueError(name, value, wanted)
        return tuple(value)

    return check


def _is_origin(text: str) -> bool:
    """Tell whether a browser would send this as an Origin: no path, no slash at the end."""
    if text == "*":
        return True
    scheme, separator, rest = text.partition("://")
    return bool(separator and scheme and rest) and text.isascii() and not set(rest) & set("/?# @,")


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _whole(least: int, most: int) -> Callable[[str, object], int]:
    return lambda name, value: check_int(name, value, least, most)


def _number(least: float, most: float) -> Callable[[str, object], float]:
    return lambda name, value: number(name, value, least, most)


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "storage": line,
    "host": line,
    "port": _whole(0, 65_535),
    "workers": _whole(1, 256),
    "access_log": _truth,
    "body_limit": _whole(1 << 10, 1 << 30),
    "cors": _listed(CORS, _is_origin),
    "trusted_proxies": _listed(PROXIES, _is_network),
    "address_rate": _number(0, 1e6),
    "key_rate": _number(0, 1e6),
    "token_rate": _number(0, 1e6),
    "burst": _number(1e-3, 3600),
    "queue": _whole(1, 10_000_000),
    "poll": _number(0.01, 10),
    "snapshot_every": _whole(1, 1 << 40),
    "stop_after": _number(0, 3600),
    "simulation": _truth,
}
assert set(CHECKS) == {field.name for field in fields(Settings)}  # noqa: S101 -- a setting without a check is a mistake here
