"""Models of event records: which marginals they are fitted to, and how tables of entities are drawn from them."""

from understudy.mechanisms.events.drawing import EventDrawer, register_tables
from understudy.mechanisms.events.workload import event_mechanism, event_workload, require_conditional

__all__ = ["EventDrawer", "event_mechanism", "event_workload", "register_tables", "require_conditional"]
