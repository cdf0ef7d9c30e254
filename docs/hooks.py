"""What the site does by itself: raw benchmark output gets one heading and stays out of the search index; notebooks become pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MEASURED = "measured/"
NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"


def notebook_page(path: Path) -> str:
    """Return a notebook as Markdown: its text, and its code in blocks. Notebooks are kept without outputs."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"]).strip("\n")
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    where = f"This page is the notebook `examples/notebooks/{path.name}`; run it to see what it shows."
    return "\n\n".join([*parts[:1], where, *parts[1:]]) + "\n"


def on_files(files: Any, *, config: Any) -> Any:
    """Add a page for each notebook."""
    from mkdocs.structure.files import File

    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook_page(path)))
    return files


def on_config(config: Any) -> Any:
    """Hang every page of raw output under one heading, so that a new one needs no line here."""
    pages = sorted(path.name for path in (Path(config["docs_dir"]) / MEASURED).glob("*.md"))
    rest = [f"{MEASURED}{name}" for name in pages if name != "index.md"]
    config["nav"].append({"Raw benchmark output": [f"{MEASURED}index.md", *rest]})
    gallery = next(part["Tutorials"] for part in config["nav"] if "Tutorials" in part)
    gallery.append({"Notebooks": [f"notebooks/{path.stem}.md" for path in sorted(NOTEBOOKS.glob("*.ipynb"))]})
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Keep raw output out of the search index: its numbers would drown the pages that explain them."""
    if page.file.src_uri.startswith(MEASURED):
        page.meta["search"] = {"exclude": True}
    return markdown
