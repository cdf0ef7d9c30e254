"""Pictures and documents of results that were computed elsewhere. Nothing here computes from records."""

from understudy.report.charts import Panel, marginal_chart
from understudy.report.evaluation import evaluation_page
from understudy.report.pictures import Share, Whiskers
from understudy.report.release import ReportContent, release_page
from understudy.report.texts import ENGLISH, Texts

__all__ = [
    "ENGLISH",
    "Panel",
    "ReportContent",
    "Share",
    "Texts",
    "Whiskers",
    "evaluation_page",
    "marginal_chart",
    "release_page",
]
