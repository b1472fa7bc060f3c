"""The planner: which epsilon to choose, from what a person knows of their own choice before it begins."""

from maskedbandits.planner.costs import Advice, Level, Plan, plan
from maskedbandits.planner.inputs import Question
from maskedbandits.planner.statistics import Estimate, Settling

__all__ = ["Advice", "Estimate", "Level", "Plan", "Question", "Settling", "plan"]
