"""A person's device: request an arm, mask the reward, and report it at a time that reveals nothing.

Whether the device participates is decided before the reward can be known: by the server's offer, the cap and writable
files. From then on a report leaves at its time in any case, of a 0 if no reward came.
"""

import hashlib
import hmac
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..errors import WrongValueError, check_line, check_number
from ..privacy import Ledger, LedgerError, round_value
from ..privacy.exact import Number
from ..privacy.ledger import TermsMismatch
from ..privacy.ledger.period import EARLIEST_TIME_S, PeriodLike
from .http import HttpClient, ServerUnavailable, encode_body
from .offers import check_arm_names, decisions_path
from .outbox import Outbox
from .protocol import Offer, OfferReader, Timing, check_max_epsilon, check_timing, find_membership
from .reporter import CLAIM_LEAD_S, Attempt, AttemptResult, Reporter, Send, Sender

LOG = logging.getLogger(__package__)
FINAL_STATUSES = ("accepted", "duplicate", "late", "forged", "foreign", "invalid")  # after these no attempt is repeated
CLOCK_NEVER_SET = "the clock was never set"
REPORT_TIMEOUT_S = 10.0
MAX_PAUSE_S = 60.0  # between checks of the clock and the files


class Decision:
    """An arm to show, whether or not the device participates.

    Attributes
    ----------
    arm
        The name of the arm to show, None if there is no arm.
    payload
        The payload of the arm.
    payloads
        With groups, the payloads of all arms.
    participate
        Whether a report of the reward will be sent.
    why
        Why the device does not participate.
    epsilon
        The epsilon of the report, 0 if there is none.

    Examples
    --------
    >>> device = Device("http://127.0.0.1:9", "headlines", cap=5, max_epsilon=1, background=False)
    >>> decision = device.decide(fallback="plain")  # no server there
    >>> decision.arm, decision.participate
    ('plain', False)
    >>> device.close()

    """

    def __init__(self, device: "Device", offer: Offer) -> None:
        self.arm: str | None = offer.arm or None
        self.payload: Any = offer.payload
        self.payloads: dict[str, Any] | None = offer.payloads
        """With groups, the payloads of all arms. Fetch resources for all of them, or the fetch reveals the group."""
        self.participate = not offer.why
        self.why = offer.why
        """Why the device does not participate; empty if it does."""
        self.epsilon = offer.epsilon if self.participate else Fraction(0)
        """The epsilon of the report."""
        self._device, self._token = device, offer.token

    def report(self, reward: float) -> bool:
        """Mask a reward, to be sent later.

        Parameters
        ----------
        reward
            A number in [0, 1].

        Returns
        -------
        bool
            Whether this reward counts: the first one does, until ``report_at``.

        Raises
        ------
        UserError
            The reward is not a number in [0, 1].

        Examples
        --------
        >>> device = Device("http://127.0.0.1:9", "headlines", cap=5, max_epsilon=1, background=False)
        >>> device.decide(fallback="plain").report(1)  # no server there: nothing to report
        False
        >>> device.close()

        """
        round_value(reward)  # check it also if the device does not participate
        return self.participate and self._device._accept_reward(self._token, reward)

    def __repr__(self) -> str:
        arm = f"arm={self.arm!r}, " if self.payloads is None else ""  # the arm would reveal the group
        return f"<Decision, {arm}participate={self.participate}>"


class Device:
    """A person's own device, for one experiment of one server.

    Examples
    --------
    >>> device = Device("http://127.0.0.1:9", "headlines", cap=5, max_epsilon=1, background=False)
    >>> device.decide(fallback="plain").arm  # no server there
    'plain'
    >>> device.close()

    """

    def __init__(
        self,
        url: str,
        experiment: str,
        *,
        cap: Number,
        max_epsilon: Number,
        path: str | os.PathLike[str] | None = None,
        per: PeriodLike = None,
        key: str | None = None,
        jitter: float = 900.0,
        timeout: float = 2.0,
        background: bool = True,
        groups: Sequence[str] | None = None,
        group: str | None = None,
        timing: Timing | None = None,
    ) -> None:
        """Open a device with its ledger at ``path`` and an outbox beside it.

        Parameters
        ----------
        url
            The address of the service.
        experiment
            The name of the experiment.
        cap
            The largest total epsilon of all reports, per ``per`` if that is given.
        max_epsilon
            The largest epsilon of one report. A request of the server cannot raise it.
        path
            The file of the ledger. Without one everything is forgotten with the process, whose devices without a
            path share one cap.
        per
            The period of the cap, such as "30 days".
        key
            The API key, if the service requires one.
        jitter
            The seconds over which the time of sending is spread, at most a quarter of the server's window.
        timeout
            Seconds for a decision, after which the fallback is shown. Reports may take at least ten.
        background
            Send reports from a thread. Otherwise call ``send_due`` now and then.
        groups, group
            The names of all groups in the order of the experiment, and the person's own. The group is neither sent nor
            stored.
        timing
            Limits outside which the device does not participate. Change them in tests and simulations only.

        Raises
        ------
        UserError
            A parameter is out of range. Damaged files raise nothing: the device then shows arms without participating.

        """
        self._client = HttpClient(url, key, check_number("timeout", timeout, 0, above=True, most=3600))
        self._report_timeout = max(timeout, REPORT_TIMEOUT_S)
        self._report_client = self._client.with_timeout(self._report_timeout)  # nobody waits for it
        self._experiment = check_line("experiment", experiment)
        self._timing = check_timing(timing)
        self._jitter = check_number("jitter", jitter, self._timing.min_jitter, most=86_400)
        self._group = find_membership(self._experiment, groups, group)
        self._reader = OfferReader(self._experiment, check_max_epsilon(max_epsilon), self._group, self._timing)
        self._stop, self._wake = threading.Event(), threading.Event()
        self._sender = Sender(self._post, self._wake.set)
        self._problem = ""
        self._refusal = ""  # why nothing more is paid for, if the ledger has other terms
        self._last_epsilon = Fraction(0)  # of a report, in the last offer
        self.ledger: Ledger | None = None
        self._outbox: Outbox | None = None
        self._reporter = self._open_files(cap, per, path)
        self._secret = os.urandom(32) if self._outbox is None else self._outbox.secret
        self._thread: threading.Thread | None = None
        if background and self._reporter is not None:
            self._thread = threading.Thread(target=self.run, name="maskedbandits device", daemon=True)
            self._thread.start()

    def decide(
        self, visitor: str | None = None, eligible_arms: Sequence[str] | None = None, fallback: str | None = None
    ) -> Decision:
        """Request the arm to show.

        Parameters
        ----------
        visitor
            The application's name for the visitor. The same visitor gets the same arm on a reload, and pays once.
        eligible_arms
            The arms that may be shown; all by default.
        fallback
            The arm to show if the server does not answer.

        Returns
        -------
        Decision
            The arm, and where to report its reward.

        Raises
        ------
        UserError
            A parameter is not of its type.

        Examples
        --------
        >>> device = Device("http://127.0.0.1:9", "headlines", cap=5, max_epsilon=1, background=False)
        >>> print(device.decide().arm)  # no server there, and no fallback
        None
        >>> device.close()

        """
        request: dict[str, Any] = {}
        pseudonym = "" if visitor is None else self._make_pseudonym(visitor)
        if pseudonym:
            request["visitor"] = pseudonym
        if eligible_arms is not None:
            request["eligible_arms"] = check_arm_names(eligible_arms)
        refusal = self._refusal_reason()
        if refusal and not self._has_open_promise(pseudonym):
            request["participate"] = False  # so that the server expects no report
        try:
            offer = self._request_offer(request)
        except ServerUnavailable as error:
            return Decision(self, Offer(fallback or "", None, why=str(error)))
        return self._accept_offer(offer, pseudonym, refusal)

    def adopt(self, offer: Mapping[str, Any]) -> Decision:
        """Take over an offer that another program, such as a backend, requested with ``request_offer``.

        The device checks, masks, pays and reports as after ``decide``. The same offer is the same promise: adopting it
        again, as after a restart, costs nothing, and has one report.

        Parameters
        ----------
        offer
            The reply of the service.

        Returns
        -------
        Decision
            The offer's arm. It does not participate if the offer is of another service or experiment, has expired or
            was reported, or costs more than is left of the cap.

        Examples
        --------
        >>> device = Device("http://127.0.0.1:9", "headlines", cap=5, max_epsilon=1, background=False)
        >>> decision = device.adopt({"arm": "plain", "participate": False})
        >>> decision.arm, decision.participate
        ('plain', False)
        >>> device.close()

        """
        refusal = self._refusal_reason()
        try:
            parsed = self._reader.read_handed(offer, self._client.url, time.time())
        except ServerUnavailable as error:
            return Decision(self, Offer("", None, why=str(error)))
        return self._accept_offer(parsed, "", refusal)

    def send_due(self, now: float | None = None) -> int:
        """Send all reports that are due.

        Parameters
        ----------
        now
            A time in seconds since 1970; the clock's by default.

        Returns
        -------
        int
            The number of reports that got a final reply.

        Examples
        --------
        >>> device = Device("http://127.0.0.1:9", "headlines", cap=5, max_epsilon=1, background=False)
        >>> device.send_due()
        0
        >>> device.close()

        """
        return self._process_due(time.time() if now is None else now, self._sender.send) or 0

    def run(self) -> None:
        """Send reports when they are due, until the device is closed.

        Examples
        --------
        >>> device = Device("http://127.0.0.1:9", "headlines", cap=5, max_epsilon=1, background=False)
        >>> device.close()
        >>> device.run()  # closed: it returns at once

        """
        while not self._stop.is_set():
            self._wake.clear()
            answered = self._process_due(time.time(), self._schedule_attempts, CLAIM_LEAD_S)
            self._wake.wait(MAX_PAUSE_S if answered is None else self._seconds_until_due())  # failed writes stay due

    def close(self) -> None:
        """Stop sending. Pending reports leave when the files are opened again.

        Examples
        --------
        >>> device = Device("http://127.0.0.1:9", "headlines", cap=5, max_epsilon=1, background=False)
        >>> device.close()

        """
        self._stop.set()
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._end_attempts()
        for part in (self.ledger, self._outbox):
            if part is not None:
                part.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Device, {self._experiment!r} at {self._client.url}, {self.ledger or 'does not participate'}>"

    def _open_files(self, cap: Number, per: PeriodLike, path: str | os.PathLike[str] | None) -> Reporter | None:
        """Open the files. Without them the device shows arms and does not participate."""
        try:
            self.ledger, self._outbox, self._refusal = open_files(cap, per, path)
        except LedgerError as error:
            self._log_problem(error)
            return None
        if self._refusal:
            self._log_problem(self._refusal)
        return Reporter(self.ledger, self._outbox, self._log_problem, self._group, self._timing, self._report_timeout)

    def _process_due(self, at: float, send: Send, lead: float = 0.0) -> int | None:
        """Do everything that is due; return the number of final replies, None if the files cannot be used."""
        if self._reporter is None or at < EARLIEST_TIME_S:  # an earlier clock was never set
            return 0
        try:
            return self._reporter.process_due(self._client.url, send, at, lead)
        except LedgerError as error:
            self._log_problem(error)
            return None

    def _schedule_attempts(self, attempts: list[Attempt]) -> list[AttemptResult]:
        """Schedule attempts; return those that ended since the last call."""
        for attempt in attempts:
            self._sender.schedule(attempt, attempt.leaves - time.time())
        return self._sender.results()

    def _end_attempts(self) -> None:
        """Record the attempts that were made, and release the others."""
        cancelled, results = self._sender.stop(), self._sender.results()
        if self._reporter is None:
            return
        try:
            for attempt in cancelled:
                self._reporter.release(attempt)
            for attempt, is_answered in results:
                if is_answered:
                    self._reporter.finish(attempt, time.time())
        except LedgerError as error:
            self._log_problem(error)

    def _seconds_until_due(self) -> float:
        """Return the seconds until something is due."""
        try:
            next_due = None if self._reporter is None else self._reporter.next_due(self._client.url, CLAIM_LEAD_S)
        except LedgerError as error:
            self._log_problem(error)
            return MAX_PAUSE_S
        return MAX_PAUSE_S if next_due is None else min(max(next_due - time.time(), 0.0), MAX_PAUSE_S)

    def _request_offer(self, request: dict[str, Any]) -> Offer:
        reply = self._client.post(decisions_path(self._experiment), request)
        return self._reader.read_reply(reply, request.get("eligible_arms"), time.time())

    def _accept_offer(self, offer: Offer, pseudonym: str, refusal: str) -> Decision:
        """Promise the report of an offer if it can be, or was, promised."""
        self._last_epsilon = offer.epsilon
        is_promised = not offer.why or self._is_known(offer.token)
        why = self._promise_report(offer, pseudonym) if is_promised else refusal or offer.why
        return Decision(self, offer._replace(why=why))

    def _refusal_reason(self) -> str:
        """Return why no report can be promised, as far as that is known before the request."""
        if self.ledger is None or self._reporter is None:
            return self._problem
        if self._refusal or time.time() < EARLIEST_TIME_S:
            return self._refusal or CLOCK_NEVER_SET
        try:
            left = self.ledger.remaining
        except LedgerError as error:
            self._log_problem(error)
            return str(error)
        if left == 0 or left < self._last_epsilon:
            return f"{float(left):g} is left of the cap of {float(self.ledger.cap):g}, less than a report costs"
        return ""

    def _has_open_promise(self, pseudonym: str) -> bool:
        """Tell whether a visitor has a paid decision that can be rewarded: its token is needed again."""
        if not pseudonym or self._reporter is None:
            return False
        try:
            return self._reporter.has_open_decision(self._client.url, pseudonym)
        except LedgerError as error:
            self._log_problem(error)
            return False

    def _is_known(self, token: str) -> bool:
        """Tell whether a report was promised for a token before. The server cannot change its times then."""
        try:
            return self._reporter is not None and token != "" and self._reporter.has_promised(token)
        except LedgerError as error:
            self._log_problem(error)
            return False

    def _promise_report(self, offer: Offer, pseudonym: str) -> str:
        """Promise a report; return why not if it is refused."""
        at = time.time()
        if self._reporter is None:
            return self._problem
        if at < EARLIEST_TIME_S:
            return CLOCK_NEVER_SET
        try:
            why = self._reporter.promise(offer, self._client.url, self._jitter, at, pseudonym)
            why = self._refusal or why if why else ""
        except LedgerError as error:
            self._log_problem(error)
            return str(error)
        self._problem = ""
        self._wake.set()
        return why

    def _accept_reward(self, token: str, reward: float) -> bool:
        try:
            return self._reporter is not None and self._reporter.reward(token, reward)
        except LedgerError as error:
            self._log_problem(error)
            return False

    def _post(self, attempt: Attempt) -> bool:
        return self._send_report(attempt.row.token, *attempt.message)

    def _send_report(self, token: str, bit: int, epsilon: Fraction, answers: int = 0) -> bool:
        """Send a report; tell whether the reply is final. All reports of a token have the same length."""
        if self._stop.is_set():
            return False
        message = {"token": token, "answer" if answers else "bit": bit, "epsilon": float(epsilon)}
        longest = len(encode_body({**message, "answer": answers - 1})) if answers else 0
        try:
            reply = self._report_client.post("/v1/reports", message, longest)
        except ServerUnavailable:
            return False  # it is retried later
        if not isinstance(reply.content, dict):
            return False
        refusal = reply.content.get("code")  # of an error; an accepted report has a status
        return (refusal or reply.content.get("status")) in FINAL_STATUSES

    def _make_pseudonym(self, visitor: str) -> str:
        """Return a name that is stable for a visitor of this device and service, and meaningless elsewhere."""
        if not isinstance(visitor, str) or not visitor:
            raise WrongValueError("visitor", visitor, "a text")
        text = f"{self._client.url}\n{self._experiment}\n{visitor}".encode("utf-8", "surrogatepass")
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()[:32]

    def _log_problem(self, error: LedgerError | str) -> None:
        """Log a problem with the files, once until they work again."""
        if not self._problem:
            LOG.warning("this device does not participate: %s", error)
        self._problem = str(error)


def open_files(cap: Number, per: PeriodLike, path: str | os.PathLike[str] | None) -> tuple[Ledger, Outbox, str]:
    """Open a ledger and its outbox; return why nothing more is paid for if the ledger has other terms."""
    ledger, refusal = _open_ledger(cap, per, path)
    try:
        return ledger, Outbox(None if ledger.path is None else Path(f"{ledger.path}.outbox")), refusal
    except LedgerError:
        ledger.close()
        raise


def _open_ledger(cap: Number, per: PeriodLike, path: str | os.PathLike[str] | None) -> tuple[Ledger, str]:
    """Open a ledger; one with other terms only to send what was promised before."""
    is_shared = path is None
    try:
        return Ledger(cap, path, per=per, shared=is_shared), ""
    except TermsMismatch as error:
        period = timedelta(seconds=error.period) if error.period else None
        return Ledger(0, path, delta=error.delta, per=period, shared=is_shared), str(error)
