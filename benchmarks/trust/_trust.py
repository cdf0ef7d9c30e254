"""Fill the marked parts of docs/explanation/trust.md from the numbers of an audit.

``python -m benchmarks --full audit`` does it after the audit has passed; ``python -m benchmarks.trust._trust .benchmarks/audit.json``
does it again from the numbers of a run.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.audit import audit_parts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "trust.md"
_MARKED = re.compile(r"(<!-- audit: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str, document: Mapping[str, Any]) -> str:
    """Return the page with each part between ``<!-- audit: NAME -->`` and ``<!-- end -->`` taken from an audit.

    Every marked part must have been audited and every audited part must be marked: a page never keeps an old table beside
    a new one.
    """
    parts = audit_parts(document)
    marked = [name for _, name, _ in _MARKED.findall(page)]
    if sorted(marked) != sorted(parts):
        raise SystemExit(f"The page has places for {marked}, the audit is of {list(parts)}.")
    return _MARKED.sub(lambda found: f"{found[1]}\n{parts[found[2]]}\n\n{found[3]}", page)


def fill(numbers: Path, page: Path = PAGE) -> None:
    """Fill a page from the file that ``understudy audit --out`` wrote."""
    document = json.loads(numbers.read_text(encoding="utf-8"))
    page.write_text(filled(page.read_text(encoding="utf-8"), document), encoding="utf-8")
    print(f"Filled {page.name} from {len(document['audits'])} audits.", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m benchmarks.trust._trust .benchmarks/audit.json")
    fill(Path(sys.argv[1]))
