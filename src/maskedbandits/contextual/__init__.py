"""Contextual policies: the right choice for each group of people, without learning who belongs to which group."""

from maskedbandits.contextual.bounds import contextual_bound
from maskedbandits.contextual.factory import check_contextual, make_contextual
from maskedbandits.contextual.hierarchy import one_for_all
from maskedbandits.contextual.policy import Contextual
from maskedbandits.contextual.serialization import load_contextual
from maskedbandits.contextual.shares import Survey, shares_from_survey

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
