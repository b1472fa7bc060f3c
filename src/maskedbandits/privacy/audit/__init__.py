"""An audit of a randomiser from the outside: from its reports alone, a lower confidence bound on its epsilon."""

from maskedbandits.privacy.audit.findings import Findings
from maskedbandits.privacy.audit.judge import audit_program
from maskedbandits.privacy.audit.ours import audit_own

__all__ = ["Findings", "audit_own", "audit_program"]
