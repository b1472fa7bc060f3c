"""Ask a service for an offer in a backend, which hands it to a person's own device.

The backend learns which arm to show before it renders a page. It never learns the reward: the device that adopts the
offer masks it and reports it.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from ..errors import WrongValueError, check_line, check_number
from .http import HttpClient, ServerUnavailable, parse_url


def request_offer(
    url: str,
    experiment: str,
    *,
    key: str | None = None,
    visitor: str | None = None,
    eligible_arms: Sequence[str] | None = None,
    fallback: str | None = None,
    public_url: str | None = None,
    timeout: float = 0.5,
) -> dict[str, Any]:
    """Request the arm to show for a person whose device will adopt the offer.

    Parameters
    ----------
    url
        The address of the service.
    experiment
        The name of the experiment.
    key
        A key with the role backend, if the service has keys. It is secret. The device needs another one, with the role
        device.
    visitor
        Your random name for the visitor, such as a cookie. The same visitor gets the same offer again.
    eligible_arms
        The arms that may be shown; all by default.
    fallback
        The arm to show if the service does not answer.
    public_url
        The address of the service for devices, if it is not ``url``.
    timeout
        Seconds for the service to answer.

    Returns
    -------
    dict
        The offer, as JSON can write it, for `Device.adopt`. It has ``arm`` and ``payload``, or with groups ``arms`` and
        ``payloads``. If the service does not answer, the arm is the fallback, ``participate`` is false, and ``why``
        tells the reason.

    Raises
    ------
    UserError
        A parameter is not of its type, or out of range.

    Examples
    --------
    >>> offer = request_offer("http://127.0.0.1:9", "headlines", fallback="plain")  # no service there
    >>> offer["arm"], offer["participate"]
    ('plain', False)

    """
    client = HttpClient(url, key, check_number("timeout", timeout, 0, above=True, most=3600))
    service = client.url if public_url is None else parse_url(public_url)[0]
    request: dict[str, Any] = {}
    if visitor is not None:
        if not isinstance(visitor, str) or not visitor:
            raise WrongValueError("visitor", visitor, "a text")
        request["visitor"] = visitor
    if eligible_arms is not None:
        request["eligible_arms"] = check_arm_names(eligible_arms)
    try:
        reply = client.post(decisions_path(check_line("experiment", experiment)), request)
    except ServerUnavailable as error:
        return _build_fallback(fallback, str(error))
    if reply.status != 200 or not isinstance(reply.content, dict):
        return _build_fallback(fallback, f"the server replied with status {reply.status}")
    return {**reply.content, "service": service}


def _build_fallback(arm: str | None, why: str) -> dict[str, Any]:
    """Return an offer without a report."""
    return {"arm": arm, "payload": None, "participate": False, "why": why}


def decisions_path(experiment: str) -> str:
    """Return the path at which a service decides."""
    return f"/v1/experiments/{quote(experiment, safe='')}/decisions"


def check_arm_names(arms: Sequence[str]) -> list[str]:
    """Return names of arms as a list."""
    names = [] if isinstance(arms, str) else list(arms)
    if not names or not all(isinstance(name, str) for name in names):
        raise WrongValueError("eligible_arms", arms, "a list of arm names")
    return names
