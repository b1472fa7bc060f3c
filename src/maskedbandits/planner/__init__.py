"""The planner: which epsilon to choose, by simulations of a choice before it begins."""

from maskedbandits.planner.inputs import PlanInputs
from maskedbandits.planner.plans import Advice, Level, Plan, plan
from maskedbandits.planner.statistics import Estimate, Settling

__all__ = ["Advice", "Estimate", "Level", "Plan", "PlanInputs", "Settling", "plan"]
