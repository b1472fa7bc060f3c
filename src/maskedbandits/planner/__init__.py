"""The planner: which epsilon to choose, from what a person knows of their own choice before it begins."""

from maskedbandits.planner.advice import Advice
from maskedbandits.planner.findings import Level, Plan, plan
from maskedbandits.planner.measures import Estimate, Settling
from maskedbandits.planner.question import Question

__all__ = ["Advice", "Estimate", "Level", "Plan", "Question", "Settling", "plan"]
