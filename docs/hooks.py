"""What the site does about raw benchmark output: one heading in the navigation, and out of the search index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MEASURED = "measured/"


def on_config(config: Any) -> Any:
    """Hang every page of raw output under one heading, so that a new one needs no line here."""
    pages = sorted(path.name for path in (Path(config["docs_dir"]) / MEASURED).glob("*.md"))
    rest = [f"{MEASURED}{name}" for name in pages if name != "index.md"]
    config["nav"].append({"Raw benchmark output": [f"{MEASURED}index.md", *rest]})
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Keep raw output out of the search index: its numbers would drown the pages that explain them."""
    if page.file.src_uri.startswith(MEASURED):
        page.meta["search"] = {"exclude": True}
    return markdown
