"""Audit a randomiser from outside: a lower confidence bound on epsilon from its reports alone.

Names that are not in ``__all__`` are internal.
"""

from maskedbandits.errors import UserError

try:
    from maskedbandits.privacy.audit.groups import audit_group_program, audit_own_groups
    from maskedbandits.privacy.audit.result import Findings, GroupFindings
    from maskedbandits.privacy.audit.run import audit_own, audit_program
except ModuleNotFoundError as _missing:
    if str(_missing.name).partition(".")[0] not in ("numpy", "scipy"):
        raise
    raise UserError(f"an audit requires {_missing.name}: pip install maskedbandits") from None

__all__ = [
    "Findings",
    "GroupFindings",
    "audit_group_program",
    "audit_own",
    "audit_own_groups",
    "audit_program",
]
