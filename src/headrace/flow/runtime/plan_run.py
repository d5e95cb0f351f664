"""One start of a plan, as it is sent to Spark's workers."""

from dataclasses import dataclass

from headrace.flow.plan.plan import Plan, PlanComponent
from headrace.flow.plan.stage import StageLayout
from headrace.flow.runtime.report import ReportAddress


@dataclass(frozen=True, slots=True)
class PlanRun:
    """What every worker receives. It must pickle.

    Attributes:
        id: a random name of this start; a restart of the same plan has another.
        report_to: where tasks send what they have counted.
    """

    plan: Plan
    layout: StageLayout
    id: str
    report_to: ReportAddress | None = None

    def component(self, name: str) -> PlanComponent:
        return self.plan.components[name]
