"""Pictures and documents of results that were computed elsewhere. Nothing here computes from records."""

from understudy.report.bars import Verdict, audit_chart
from understudy.report.charts import Panel, marginal_chart
from understudy.report.evaluation import accounted_page, evaluation_page
from understudy.report.page import (
    ENGLISH,
    Block,
    Bullets,
    Heading,
    Page,
    Table,
    Text,
    Texts,
    inline_markdown,
    markdown,
    render,
)
from understudy.report.pictures import Picture, Share, Whiskers, comparison_panels
from understudy.report.release import Figure, ReportContent, chance, release_page

__all__ = [
    "ENGLISH",
    "Block",
    "Bullets",
    "Figure",
    "Heading",
    "Page",
    "Panel",
    "Picture",
    "ReportContent",
    "Share",
    "Table",
    "Text",
    "Texts",
    "Verdict",
    "Whiskers",
    "accounted_page",
    "audit_chart",
    "chance",
    "comparison_panels",
    "evaluation_page",
    "inline_markdown",
    "marginal_chart",
    "markdown",
    "release_page",
    "render",
]
