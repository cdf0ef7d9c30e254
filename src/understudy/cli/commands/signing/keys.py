"""``understudy keys``: the user's keys, and the keys of others that are trusted here."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import Json

app = typer.Typer(
    help="Keys to sign with, and keys of others that are trusted here. They lie in your own folder (UNDERSTUDY_HOME).",
    no_args_is_help=True,
)

Label = Annotated[str, typer.Argument(help="Short name of the key among yours.")]
WHO = "Name of the person who holds the key, signs or approves."
Holder = Annotated[str, typer.Option("--name", help=WHO)]


def ask_passphrase() -> str:
    """Return the passphrase of a key: from UNDERSTUDY_PASSPHRASE, or asked for at a terminal."""
    from understudy.errors import SignatureError

    given = os.environ.get("UNDERSTUDY_PASSPHRASE")
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise SignatureError(
            "The key is protected by a passphrase, and there is no terminal to ask for it. Set UNDERSTUDY_PASSPHRASE."
        )
    return str(typer.prompt("Passphrase", hide_input=True, err=True))


@app.command("new")
def new(
    label: Label,
    name: Holder,
    passphrase: Annotated[
        bool,
        typer.Option("--passphrase", help="Protect the private key by a passphrase, which is asked for."),
    ] = False,
    json: Json = False,
) -> None:
    """Make a key.

    The private part can be read by you alone; give the public part (`keys export`) to those who are to check your signatures.
    """
    from understudy.cli.output import print_json, tell
    from understudy.signatures import open_keyring

    secret = None
    if passphrase:
        asked = os.environ.get("UNDERSTUDY_PASSPHRASE") is None and sys.stdin.isatty()
        secret = (
            str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True))
            if asked
            else ask_passphrase()
        )
    own = open_keyring().new(label, name=name, passphrase=secret)
    if json:
        print_json({"label": own.label, "name": own.public.name, "fingerprint": own.public.fingerprint})
        return
    tell(f"Made the key {own.label!r} of {own.public.name}. Fingerprint: {own.public.fingerprint}")
    tell(f"For others: understudy keys export {own.label} --out {own.label}.key.json")


@app.command("list")
def list_keys(json: Json = False) -> None:
    """Show your keys and those that you trust."""
    from understudy.cli.output import print_json, print_table
    from understudy.signatures import open_keyring

    ring = open_keyring()
    own = {key.public.key: key for key in ring.own()}
    rows = [
        {
            "fingerprint": item.public.fingerprint,
            "name": item.name,
            "label": own[item.public.key].label if item.own else None,
            "own": item.own,
            "passphrase": own[item.public.key].encrypted if item.own else None,
        }
        for item in ring.trusted_keys()
    ]
    if json:
        print_json(rows)
        return
    print_table(
        "Keys",
        ("fingerprint", "name", "yours, as", "passphrase"),
        [
            (
                row["fingerprint"],
                row["name"],
                row["label"] or "",
                "" if row["passphrase"] is None else "yes" if row["passphrase"] else "no",
            )
            for row in rows
        ],
    )


@app.command("export")
def export(
    label: Label,
    out: Annotated[Path, typer.Option("--out", help="File to write; must not exist yet.")],
    private: Annotated[
        bool,
        typer.Option(
            "--private",
            help="Write the private key, to move it to another machine. Whoever has it can sign as you.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Write the public part of a key to a file.

    Give it to those who are to check your signatures.
    """
    from understudy.cli.output import print_json, tell
    from understudy.errors import OutputError
    from understudy.signatures import open_keyring

    ring = open_keyring()
    own = ring.find(label)
    content = ring.export_private(own.label) if private else own.public.to_text().encode("utf-8")
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
    except OSError as error:
        raise OutputError(f"The key cannot be written to {str(out)!r}: {error.strerror or error}.") from None
    what = "private" if private else "public"
    if json:
        print_json({"out": str(out), "kind": what, "fingerprint": own.public.fingerprint})
        return
    tell(f"Wrote the {what} key {own.label!r} to {out}. Fingerprint: {own.public.fingerprint}")


@app.command("import")
def import_key(
    file: Annotated[Path, typer.Argument(help="Private key that `keys export --private` wrote.")],
    label: Label,
    name: Holder,
    json: Json = False,
) -> None:
    """Add a private key of your own that was made on another machine."""
    from understudy.cli.output import print_json, tell
    from understudy.signatures import open_keyring

    own = open_keyring().import_private(_content(file), label, name=name, passphrase=ask_passphrase)
    if json:
        print_json({"label": own.label, "name": own.public.name, "fingerprint": own.public.fingerprint})
        return
    tell(f"Added the key {own.label!r} of {own.public.name}. Fingerprint: {own.public.fingerprint}")


@app.command("trust")
def trust(
    file: Annotated[Path, typer.Argument(help="Public key that its holder gave you.")],
    name: Annotated[str | None, typer.Option("--name", help=WHO)] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(
            "--fingerprint",
            help="What its holder told you by another way; a key with another one is refused.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Trust the key of somebody else from now on.

    Compare the fingerprint with its holder first, by another way than the one the file came: by telephone, say.
    """
    from understudy.cli.output import print_json, tell
    from understudy.errors import SignatureError
    from understudy.signatures import PublicKey, open_keyring

    public = PublicKey.parse(_content(file))
    if fingerprint is not None and fingerprint.replace(" ", "").lower() != public.fingerprint:
        raise SignatureError(
            f"The key has the fingerprint {public.fingerprint}, not {fingerprint}. It is not the one you were told of; nothing was trusted."
        )
    known = open_keyring().trust(public, name=name)
    if json:
        print_json({"name": known.name, "fingerprint": public.fingerprint})
        return
    tell(f"Trusted from now on: {known.name}, fingerprint {public.fingerprint}.")
    if fingerprint is None:
        tell(
            "Compare this fingerprint with its holder by another way than the file came, if you have not yet."
        )


@app.command("distrust")
def distrust(
    fingerprint: Annotated[str, typer.Argument(help="Fingerprint of the key, as `keys list` shows it.")],
    json: Json = False,
) -> None:
    """Trust a key no longer."""
    from understudy.cli.output import print_json, tell
    from understudy.signatures import open_keyring

    open_keyring().distrust(fingerprint)
    if json:
        print_json({"distrusted": fingerprint})
        return
    tell(f"The key {fingerprint} is no longer trusted here.")


def _content(file: Path) -> bytes:
    from understudy.errors import SignatureError
    from understudy.signatures.statement import LARGEST

    try:
        if not file.is_file():
            raise SignatureError(f"There is no key file {str(file)!r}.")
        with file.open("rb") as stream:
            return stream.read(LARGEST + 1)
    except OSError as error:
        raise SignatureError(f"The key {str(file)!r} cannot be read: {error.strerror or error}.") from None
