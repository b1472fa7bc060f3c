"""An audit of a randomiser from the outside: from its reports alone, a lower confidence bound on its epsilon."""

from maskedbandits.errors import UserError

try:
    from maskedbandits.privacy.audit.findings import Findings
    from maskedbandits.privacy.audit.judge import audit_program
    from maskedbandits.privacy.audit.ours import audit_own
except ModuleNotFoundError as _missing:
    if str(_missing.name).partition(".")[0] not in ("numpy", "scipy"):
        raise
    raise UserError(
        f"an audit needs {_missing.name}, which is not installed: pip install maskedbandits installs it"
    ) from None

__all__ = ["Findings", "audit_own", "audit_program"]
