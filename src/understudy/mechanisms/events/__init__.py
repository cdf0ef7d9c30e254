"""Models of event records: which marginals they are fitted to, and how tables of entities are drawn from them."""

from understudy.mechanisms.events.drawing import EventDrawer
from understudy.mechanisms.events.register import RegisterModel, is_register_model
from understudy.mechanisms.events.workload import event_mechanism, event_workload, require_conditional

__all__ = [
    "EventDrawer",
    "RegisterModel",
    "event_mechanism",
    "event_workload",
    "is_register_model",
    "require_conditional",
]
