"""The files of a device: its ledger, and the outbox beside it."""

import os
from datetime import timedelta
from pathlib import Path

from ..privacy.exact import Number
from ..privacy.ledger import Ledger, LedgerError, OtherTerms
from ..privacy.ledger.period import Length
from .outbox import Outbox


def open_files(cap: Number, per: Length, path: str | os.PathLike[str] | None) -> tuple[Ledger, Outbox, str]:
    """Open a ledger and its outbox; return why nothing more is paid for, if the ledger was made for other terms."""
    ledger, refused = _open_ledger(cap, per, path)
    try:
        return ledger, Outbox(None if ledger.path is None else Path(f"{ledger.path}.outbox")), refused
    except LedgerError:
        ledger.close()
        raise


def _open_ledger(cap: Number, per: Length, path: str | os.PathLike[str] | None) -> tuple[Ledger, str]:
    """Open a ledger; one of other terms only to send what was promised, and to pay for nothing."""
    is_shared = path is None
    try:
        return Ledger(cap, path, per=per, shared=is_shared), ""
    except OtherTerms as error:
        period = timedelta(seconds=error.period) if error.period else None
        return Ledger(0, path, delta=error.delta, per=period, shared=is_shared), str(error)
