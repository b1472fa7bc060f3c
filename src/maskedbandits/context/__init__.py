"""The right choice for each kind of person, without anybody learning what kind they are."""

from maskedbandits.context.bounds import contextual_bound
from maskedbandits.context.contextual import Contextual
from maskedbandits.context.factory import check_contextual, make_contextual
from maskedbandits.context.hierarchy import one_for_all
from maskedbandits.context.saved import load_contextual
from maskedbandits.context.survey import Survey, shares_from_survey

__all__ = [
    "Contextual",
    "Survey",
    "check_contextual",
    "contextual_bound",
    "load_contextual",
    "make_contextual",
    "one_for_all",
    "shares_from_survey",
]
