"""Makes a flow known to commands on other machines while it runs, if it is to be."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import structlog

from headrace.flow.monitoring.metrics import FlowFigures
from headrace.flow.plan.client_option import client_of
from headrace.flow.plan.plan import Plan
from headrace.flow.remote.control_setting import is_controlled
from headrace.model.error import HeadraceError

_log = structlog.get_logger(__name__)


def control_link(
    plan: Plan, brokers: str, spark: Any, figures: Callable[[], FlowFigures]
) -> AbstractContextManager[Any]:
    """Return what to run the flow inside. It raises nothing: a flow runs without it too."""
    context = spark.sparkContext
    conf = context.getConf()
    if not is_controlled(plan.settings, conf.get):
        return nullcontext()
    from headrace.flow.remote.driver_link import DriverLink

    try:
        return DriverLink(
            client_of(plan.settings, brokers),
            name=plan.name,
            application=context.applicationId,
            figures=figures,
        )
    except HeadraceError as error:
        _log.warning("flow_control_unavailable", flow=plan.name, error=str(error))
        return nullcontext()
