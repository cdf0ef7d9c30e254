"""``understudy sign`` and ``understudy approve``: statements about a bundle, a specification, a ledger or a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.commands.signing.keys import WHO
from understudy.cli.options import Json

_ROLE = (
    "In which role: owner, lawyer, domain expert, statistician or data protection officer. A specification that is signed in a "
    "role is approved by it."
)


def sign(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="What to sign: a bundle, a specification, a ledger (its head), or any file."
        ),
    ],
    role: Annotated[
        str,
        typer.Option("--as", help=_ROLE),
    ] = "",
    name: Annotated[str | None, typer.Option("--name", help=WHO)] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Which of your keys; needed if you have several.")
    ] = None,
    json: Json = False,
) -> None:
    """Sign a bundle, a specification, the head of a ledger, or a file.

    The signature goes to a file beside it, which `understudy verify PATH` finds. It covers the kind of thing, its hash, your name, role and
    the day together.
    """
    from understudy.cli.commands.signing.keys import ask_passphrase
    from understudy.cli.output import print_json, tell
    from understudy.release.signing import sign as sign_path

    file, said = sign_path(path, key=key, role=role, name=name, passphrase=ask_passphrase)
    if json:
        print_json({"out": str(file), **said.to_dict()})
        return
    tell(f"{said.describe()[0].upper()}{said.describe()[1:]}.")
    tell(f"Wrote {file}.")


def approve(
    spec: Annotated[Path, typer.Argument(help="Specification that is approved as it stands.")],
    role: Annotated[str, typer.Option("--as", help=_ROLE)],
    name: Annotated[str, typer.Option("--name", help=WHO)],
    json: Json = False,
) -> None:
    """Record, unsigned, that somebody approved a specification.

    Anybody can type this; `understudy sign SPEC --as ROLE` signs it. The approval names the hash of the specification, so it lapses
    with any change, and travels in the certificate of the release.
    """
    from understudy.cli.output import print_json, tell
    from understudy.release.approvals import approve as record

    file, said = record(spec, role=role, name=name)
    if json:
        print_json({"out": str(file), **said.to_dict()})
        return
    tell(f"{said.describe()[0].upper()}{said.describe()[1:]}.")
    tell(f"Wrote {file}.")
