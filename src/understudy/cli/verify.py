"""``understudy verify``: whether a published bundle is what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli._options import Json


def verify(
    bundle: Annotated[Path, typer.Argument(help="Folder of a published release.")], json: Json = False
) -> None:
    """Check that a bundle is what was published.

    Hashes, guarantee and conformance to the schema are recomputed from the bundle alone.
    """
    from understudy.cli._output import print_json, tell
    from understudy.release.verify import verify_bundle

    certificate = verify_bundle(bundle)
    if json:
        print_json({"verified": True, "certificate": certificate})
        return
    tell(f"The bundle {str(bundle)!r} is intact: {certificate['rows']:,} rows, all files as published.")
    charges = sum(entry.get("event") is not None for entry in certificate["ledger"]["entries"])
    counted = "1 charge" if charges == 1 else f"{charges} charges"
    tell(f"Guarantee, recomputed from {counted}: {certificate['guarantee']['words']}")
