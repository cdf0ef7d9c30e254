"""``understudy studio``: the desk where people decide about a release, and a design as one page to send around."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from understudy.cli.options import Browser, Json
from understudy.errors import MissingExtra


class _OpensByDefault(TyperGroup):
    """A group whose first command need not be named: ``understudy studio FOLDER``."""

    def parse_args(self, ctx: object, args: list[str]) -> list[str]:  # type: ignore[override]
        if args[:1] != ["--help"] and (not args or args[0] not in self.commands):
            args = ["open", *args]
        return super().parse_args(ctx, args)  # type: ignore[arg-type]


app = typer.Typer(
    cls=_OpensByDefault,
    help="Decide about a release in the browser, on this machine alone. No record is opened.",
    rich_markup_mode=None,
)

Folder = Annotated[
    Path,
    typer.Argument(help="Folder of the studio: schema, designs, signed specifications, ledgers, bundles."),
]


@app.command("open")
def open_(
    folder: Folder = Path(),
    port: Annotated[
        int,
        typer.Option("--port", min=0, max=65535, help="Where to listen on loopback; 0 takes a free port."),
    ] = 0,
    browser: Browser = True,
    json: Json = False,
) -> None:
    """Serve the studio of a folder until interrupted.

    `understudy studio FOLDER` is short for it. One line is printed: the address, with a token that works once.
    """
    try:
        from understudy.studio.app import serve
    except ImportError:
        raise MissingExtra("The studio needs the optional extra: pip install 'understudy[studio]'.") from None

    from understudy.cli.output import print_json

    def announce(address: str) -> None:
        if json:
            print_json({"address": address})
        else:
            sys.stdout.write(f"{address}\n")
        sys.stdout.flush()

    serve(folder, port=port, browser=browser, announce=announce)


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(help="Folder of the studio.")],
    design: Annotated[str, typer.Argument(help="Name of the design.")],
    out: Annotated[Path, typer.Option("--out", help="Page to write (.html).")],
    json: Json = False,
) -> None:
    """Write a design as one HTML page.

    It holds everything that follows from the design, for people who get a file by mail. It opens without a network and holds the rehearsals that were made so far. No record is opened and nothing is spent.
    """
    try:
        from understudy.studio.export import export_design
    except ImportError:
        raise MissingExtra("The studio needs the optional extra: pip install 'understudy[studio]'.") from None
    from understudy.cli.output import print_json, tell
    from understudy.data.output import require_writable, write_text

    require_writable(out, what="page")
    write_text(out, export_design(folder, design))
    if json:
        print_json({"out": str(out)})
        return
    tell(f"Wrote {out}. Open it in a browser; it needs no network.")
