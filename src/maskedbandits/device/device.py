"""A person's device: asks which arm to show, masks what came of it, and reports that at a time that tells nothing.

Whether it takes part is settled before the reward can be known: with the server's offer, with the cap, and with a file
that can be written. From then on a report leaves at its time, whatever happens: of a 0 if no reward came.
"""

import hashlib
import hmac
import logging
import os
import threading
import time
from collections.abc import Sequence
from fractions import Fraction
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from ..errors import WrongValueError, line, number
from ..privacy import Ledger, LedgerError
from ..privacy.exact import Number
from ..privacy.ledger.period import EARLIEST, Length
from .decision import Decision
from .files import open_files
from .http import Away, Wire, written
from .limits import Timing, as_timing
from .outbox import Outbox
from .protocol import Offer, group_of, largest, read_offer
from .reporter import LEAD, Attempt, Promises, Send
from .sender import Outcome, Sender

LOG = logging.getLogger(__package__)
ANSWERS = ("accepted", "duplicate", "late", "forged", "foreign", "invalid")  # after which nothing is tried again
NEVER_SET = "the clock was never set"
LOOK = 60.0  # seconds after which the clock and the file are looked at in any case


class Device:
    """What runs beside an application on a person's own device, for one experiment of one server."""

    def __init__(
        self,
        url: str,
        experiment: str,
        *,
        cap: Number,
        max_epsilon: Number,
        path: str | os.PathLike[str] | None = None,
        per: Length = None,
        key: str | None = None,
        jitter: float = 900.0,
        timeout: float = 10.0,
        background: bool = True,
        groups: Sequence[str] | None = None,
        group: str | None = None,
        timing: Timing | None = None,
    ) -> None:
        """Open a device; its ledger is the file at ``path``, with an outbox beside it.

        All reports together may cost the ``cap`` (``per`` a time), and one of them ``max_epsilon``, whatever the server
        says. The moment at which a report leaves is spread over ``jitter`` seconds, or over a quarter of the server's
        window if that is less. With ``background`` a thread sends them; without, call ``send_due`` now and then.
        Without a path all is forgotten with the process, whose devices without a path share one cap. ``timing`` holds
        the limits below which the device takes no part: give others in tests and simulations alone.
        Where an experiment has ``groups``, named here in its order, the person belongs to one of them, the ``group``,
        which is neither sent nor written down.
        """
        self._wire = Wire(url, key, number("timeout", timeout, 0, above=True, most=3600))
        self._experiment = line("experiment", experiment)
        self._timing = as_timing(timing)
        self._jitter = number("jitter", jitter, self._timing.min_jitter, most=86_400)
        self._timeout = timeout
        self._most = largest(max_epsilon)
        self._group = group_of(self._experiment, groups, group)
        self._stop, self._wake = threading.Event(), threading.Event()
        self._sender = Sender(self._post, self._wake.set)
        self._trouble = ""
        self._refused = ""  # why nothing more is paid for, if the ledger was made for other terms
        self._cost = Fraction(0)  # of a report, as the server last said
        self.ledger: Ledger | None = None
        self._outbox: Outbox | None = None
        self._promises = self._opened(cap, per, path)
        self._secret = os.urandom(32) if self._outbox is None else self._outbox.secret
        self._thread: threading.Thread | None = None
        if background and self._promises is not None:
            self._thread = threading.Thread(target=self.run, name="maskedbandits device", daemon=True)
            self._thread.start()

    def decide(
        self, visitor: str | None = None, eligible_arms: Sequence[str] | None = None, fallback: str | None = None
    ) -> Decision:
        """Ask which arm to show; the fallback, if the server is away.

        The same visitor gets the same arm on a reload, and pays once.
        """
        question: dict[str, Any] = {}
        pseudonym = "" if visitor is None else self._pseudonym(visitor)
        if pseudonym:
            question["visitor"] = pseudonym
        if eligible_arms is not None:
            question["eligible_arms"] = _names(eligible_arms)
        away = self._takes_no_part()
        if away and not self._has_promised(pseudonym):
            question["participate"] = False  # so that no report is waited for
        try:
            offer = self._offered(question)
        except Away as error:
            return Decision(self, Offer(fallback or "", None, why=str(error)))
        self._cost = offer.epsilon
        is_promised = not offer.why or self._is_known(offer.token)
        why = self._promised(offer, pseudonym) if is_promised else away or offer.why
        return Decision(self, offer._replace(why=why))

    def send_due(self, now: float | None = None) -> int:
        """Send the reports whose time has come, all at once; return how many were answered for good.

        ``now`` is a time in seconds since 1970: the clock's, if it is left out.
        """
        return self._kept(time.time() if now is None else now, self._sender.send) or 0

    def run(self) -> None:
        """Send reports when their time comes, until the device is closed."""
        while not self._stop.is_set():
            self._wake.clear()
            answered = self._kept(time.time(), self._scheduled, LEAD)
            self._wake.wait(LOOK if answered is None else self._pause())  # what could not be written stays due

    def close(self) -> None:
        """Stop sending; what has not left yet leaves when the file is opened again."""
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
        return f"<Device, {self._experiment!r} at {self._wire.url}, {self.ledger or 'takes no part'}>"

    def _opened(self, cap: Number, per: Length, path: str | os.PathLike[str] | None) -> Promises | None:
        """Open the files; without them the device shows arms and takes no part."""
        try:
            self.ledger, self._outbox, self._refused = open_files(cap, per, path)
        except LedgerError as error:
            self._say(error)
            return None
        if self._refused:
            self._say(self._refused)
        return Promises(self.ledger, self._outbox, self._say, self._group, self._timing, self._timeout)

    def _kept(self, at: float, send: Send, lead: float = 0.0) -> int | None:
        """Do what is due; return how many reports were answered for good, None if the files are of no use."""
        if self._promises is None or at < EARLIEST:  # a clock that says less was never set
            return 0
        try:
            return self._promises.keep(self._wire.url, send, at, lead)
        except LedgerError as error:
            self._say(error)
            return None

    def _scheduled(self, attempts: list[Attempt]) -> list[Outcome]:
        """Have attempts made at their times; return those that were made since the last call."""
        for attempt in attempts:
            self._sender.schedule(attempt, attempt.leaves - time.time())
        return self._sender.outcomes()

    def _end_attempts(self) -> None:
        """Write down what became of the attempts that were made, and give back the others."""
        unmade, outcomes = self._sender.stop(), self._sender.outcomes()
        if self._promises is None:
            return
        try:
            for attempt in unmade:
                self._promises.give_back(attempt)
            for attempt, is_answered in outcomes:
                if is_answered:
                    self._promises.finish(attempt, time.time())
        except LedgerError as error:
            self._say(error)

    def _pause(self) -> float:
        """Return for how many seconds there is nothing to do."""
        try:
            soonest = None if self._promises is None else self._promises.soonest(self._wire.url, LEAD)
        except LedgerError as error:
            self._say(error)
            return LOOK
        return LOOK if soonest is None else min(max(soonest - time.time(), 0.0), LOOK)

    def _offered(self, question: dict[str, Any]) -> Offer:
        path = f"/v1/experiments/{quote(self._experiment, safe='')}/decisions"
        answer = self._wire.post(path, question)
        eligible = question.get("eligible_arms")
        return read_offer(answer, eligible, self._most, time.time(), self._group, self._timing)

    def _takes_no_part(self) -> str:
        """Return why no report can be promised, as far as that is known before it is asked for."""
        if self.ledger is None or self._promises is None:
            return self._trouble
        if self._refused or time.time() < EARLIEST:
            return self._refused or NEVER_SET
        try:
            left = self.ledger.remaining
        except LedgerError as error:
            self._say(error)
            return str(error)
        if left == 0 or left < self._cost:
            return f"{float(left):g} is left of the cap of {float(self.ledger.cap):g}, and a report costs more"
        return ""

    def _has_promised(self, pseudonym: str) -> bool:
        """Tell whether a visitor has a decision that is paid for and can be rewarded: its token is needed again."""
        if not pseudonym or self._promises is None:
            return False
        try:
            return self._promises.is_open(self._wire.url, pseudonym)
        except LedgerError as error:
            self._say(error)
            return False

    def _is_known(self, token: str) -> bool:
        """Tell whether a report was promised for a token before: its times are settled, whatever the server says."""
        try:
            return self._promises is not None and token != "" and self._promises.has_made(token)
        except LedgerError as error:
            self._say(error)
            return False

    def _promised(self, offer: Offer, pseudonym: str) -> str:
        """Promise a report; return why not, if so."""
        at = time.time()
        if self._promises is None:
            return self._trouble
        if at < EARLIEST:
            return NEVER_SET
        try:
            why = self._promises.make(offer, self._wire.url, self._jitter, at, pseudonym)
            why = self._refused or why if why else ""
        except LedgerError as error:
            self._say(error)
            return str(error)
        self._trouble = ""
        self._wake.set()
        return why

    def _rewarded(self, token: str, reward: float) -> bool:
        try:
            return self._promises is not None and self._promises.reward(token, reward)
        except LedgerError as error:
            self._say(error)
            return False

    def _post(self, attempt: Attempt) -> bool:
        return self._sent(attempt.row.token, *attempt.message)

    def _sent(self, token: str, bit: int, epsilon: Fraction, answers: int = 0) -> bool:
        """Send a report; tell whether it was answered for good. All reports of a token have the same length."""
        if self._stop.is_set():
            return False
        told = {"token": token, "answer" if answers else "bit": bit, "epsilon": float(epsilon)}
        longest = len(written({**told, "answer": answers - 1})) if answers else 0
        try:
            answer = self._wire.post("/v1/reports", told, longest)
        except Away:
            return False  # it is sent again later
        return isinstance(answer.content, dict) and answer.content.get("status") in ANSWERS

    def _pseudonym(self, visitor: str) -> str:
        """Return a name that is the same for a visitor of this device at this service, and means nothing elsewhere."""
        if not isinstance(visitor, str) or not visitor:
            raise WrongValueError("visitor", visitor, "a text")
        text = f"{self._wire.url}\n{self._experiment}\n{visitor}".encode("utf-8", "surrogatepass")
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()[:32]

    def _say(self, error: LedgerError | str) -> None:
        """Say what is wrong with the files, once until they work again."""
        if not self._trouble:
            LOG.warning("this device takes no part: %s", error)
        self._trouble = str(error)


def _names(arms: Sequence[str]) -> list[str]:
    """Return names of arms as a list."""
    names = [] if isinstance(arms, str) else list(arms)
    if not names or not all(isinstance(name, str) for name in names):
        raise WrongValueError("eligible_arms", arms, "a list of names of arms")
    return names
