"""``understudy compare``: two bundles or two tables side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import Json, OptionalSchema


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="Folder of a bundle, or a table.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Folder of a bundle, or a table.")],
    described: OptionalSchema = None,
    most: Annotated[
        int, typer.Option("--most", min=1, help="How many columns and how many pairs to show.")
    ] = 10,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Page to write as well: Markdown, or HTML if it ends in .html."),
    ] = None,
    json: Json = False,
) -> None:
    """Compare two bundles, or two tables, and what noise explains.

    Schemas, guarantees, and the largest changes of columns and pairs of columns, beside what noise alone would explain where that is known: not in releases
    of entities with their events. Bundles are verified
    first, and cost nothing. A table that is no bundle is read without noise: it must be public, or be compared by
    somebody who may see it, and what is written says so. Nothing is written into the folder of a bundle.
    """
    from understudy.cli.output import print_json, print_table, say, tell
    from understudy.data import write_text
    from understudy.data.output import require_outside_bundles, require_writable
    from understudy.release.series.compare import (
        changes_table,
        compare_sides,
        comparison_page,
        explanation,
        side_of,
    )
    from understudy.report import markdown, render
    from understudy.schema import Schema

    if out is not None:
        require_writable(out, what="page")
        require_outside_bundles(out)
    schema = None if described is None else Schema.read(described)
    left = side_of(first, schema)
    found = compare_sides(left, side_of(second, schema or left.schema), most=most)
    if out is not None:
        page = comparison_page(found)
        write_text(out, render(page) if out.suffix == ".html" else markdown(page))
    if json:
        print_json(found.to_dict())
        return
    if found.warning:
        say(found.warning)
    tell(f"{found.labels[0]}: {found.rows[0]:,} rows. {found.labels[1]}: {found.rows[1]:,} rows.")
    for text in found.schema:
        tell(f"Schema: {text}.")
    for label, words in zip(found.labels, found.guarantees, strict=True):
        if words:
            tell(f"Guarantee of {label}: {words}")
    for title, changes in (("Columns", found.columns), ("Pairs of columns", found.pairs)):
        print_table(title, *changes_table(changes))
    tell(explanation(found))
