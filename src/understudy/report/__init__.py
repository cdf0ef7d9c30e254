"""Pictures and documents of results that were computed elsewhere. Nothing here computes from records."""

from understudy.report.charts import Panel, marginal_chart

__all__ = ["Panel", "marginal_chart"]
