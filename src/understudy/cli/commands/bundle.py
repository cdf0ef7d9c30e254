"""``understudy verify``, ``report`` and ``open``: whether a published bundle is what it says, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import Json
from understudy.data.output import require_writable
from understudy.errors import OutputError

# ----------------------------------------------------------------------------------------
# ``understudy report``: the page of a release, made again from its bundle.


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
    from understudy.cli.output import print_json, tell
    from understudy.data import write_text
    from understudy.release.bundle.reporting import bundle_report
    from understudy.release.bundle.verify import verify_bundle
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


def open_report(
    bundle: Annotated[Path, typer.Argument(help="Folder of a published release.")],
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--no-browser", help="Whether to open the browser; the path is printed anyway."
        ),
    ] = True,
    json: Json = False,
) -> None:
    """Open the report of a bundle in the browser.

    Its hashes and guarantee are checked first: a page that somebody changed is not opened.
    """
    import webbrowser

    from understudy.cli.output import print_json, say, tell
    from understudy.release.bundle.verify import verify_bundle

    verify_bundle(bundle)
    page = (bundle / "report.html").resolve()
    opened = browser and webbrowser.open(page.as_uri())
    if json:
        print_json({"report": str(page), "opened": opened})
        return
    tell(str(page))
    if browser and not opened:
        say("No browser could be started here; open that file in one.")


def verify(
    bundle: Annotated[Path, typer.Argument(help="Folder of a published release.")], json: Json = False
) -> None:
    """Check that a bundle is what was published.

    Hashes, guarantee and conformance to the schema are recomputed from the bundle alone.
    """
    from understudy.cli.output import print_json, tell
    from understudy.release.bundle.verify import verify_bundle

    certificate = verify_bundle(bundle)
    if json:
        print_json({"verified": True, "certificate": certificate})
        return
    tell(f"The bundle {str(bundle)!r} is intact: {certificate['rows']:,} rows, all files as published.")
    charges = sum(entry.get("event") is not None for entry in certificate["ledger"]["entries"])
    counted = "1 charge" if charges == 1 else f"{charges} charges"
    tell(f"Guarantee, recomputed from {counted}: {certificate['guarantee']['words']}")
