"""``understudy report``: the page of a release, made again from its bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli._options import Json, require_writable
from understudy.errors import OutputError


def report(
    bundle: Annotated[Path, typer.Argument(help="Folder of a published release.")],
    out: Annotated[Path, typer.Option("--out", help="Page to write (.html), outside the bundle.")] = Path(
        "report.html"
    ),
    json: Json = False,
) -> None:
    """Write the report of a bundle, from the bundle alone.

    The bundle is verified first and not touched: its own report.html is part of what was published.
    """
    from understudy.cli._output import print_json, tell
    from understudy.data import write_text
    from understudy.release.reporting import bundle_report
    from understudy.release.verify import verify_bundle
    from understudy.report import release_page

    if bundle.resolve() in (out.resolve().parent, *out.resolve().parent.parents):
        raise OutputError("A published bundle is not changed; write the report elsewhere (--out).")
    require_writable(out, what="report")
    verify_bundle(bundle)
    write_text(out, release_page(bundle_report(bundle)))
    if json:
        print_json({"out": str(out)})
        return
    tell(f"Wrote {out}. Open it in a browser; it needs no network.")
