"""The gallery of notebooks: each runs from top to bottom in a fresh kernel, is kept without outputs, and is a page of the site."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
GALLERY = (ROOT / "docs" / "how-to" / "notebooks.md").read_text(encoding="utf-8")

sys.path.insert(0, str(ROOT / "docs"))

import hooks  # noqa: E402


def test_there_are_five() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "1-first-stand-in",
        "2-conditional-sampling",
        "3-intervals-and-valid-inference",
        "4-linked-tables",
        "5-comparing-methods",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient runs notebooks")
    nbformat = pytest.importorskip("nbformat", reason="nbformat reads notebooks")
    pytest.importorskip("ipykernel", reason="the kernel of notebooks")
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    client = nbclient.NotebookClient(
        book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()  # an error in a cell is raised here, with its text
    shown = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("text/html" in output.get("data", {}) for output in shown)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert cells[0]["cell_type"] == "markdown"
    for cell in cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_a_page(path: Path) -> None:
    text = hooks.notebook_page(path)
    assert text.startswith("# ")
    assert text.count("```python") == text.count("\n```\n")
    assert "import" in text
    assert f"../notebooks/{path.stem}.md" in GALLERY
