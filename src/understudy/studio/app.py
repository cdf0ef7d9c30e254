"""The application: which page answers at which address, and how it is served."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from understudy.errors import OutputError, UsageError
from understudy.report.page import stylesheet
from understudy.studio import agreement, export, schemas, shelf, tables
from understudy.studio.designs import pages
from understudy.studio.designs.consequences import warm_up
from understudy.studio.desk import HERE, Desk, handler
from understudy.studio.folder import Folder
from understudy.studio.security import Gate, Guard, leading_to

__all__ = ["create_app", "serve"]


def create_app(desk: Desk) -> ASGIApp:
    """Return the application of a desk, with its guard before it."""

    def shown(path: str, answer: Callable[..., Response]) -> Route:
        return Route(path, handler(desk, answer), methods=["GET"])

    def sent(path: str, answer: Callable[..., Response], *, changes: bool = True) -> Route:
        return Route(path, handler(desk, answer, form=True, changes=changes), methods=["POST"])

    def nowhere(request: Request, error: Exception) -> Response:
        return desk.problem(UsageError("There is no such page in the studio."), status=404)

    def fault(request: Request, error: Exception) -> Response:
        return PlainTextResponse(
            f"An unexpected {type(error).__name__}: this is a fault of Understudy. Nothing was spent.\n",
            status_code=500,
        )

    app = Starlette(
        routes=[
            Route("/static/{name}", _static, methods=["GET"]),
            shown("/", shelf.home),
            shown("/schema", schemas.overview),
            shown("/schema/columns/{index}", schemas.column),
            sent("/schema/columns/{index}", schemas.save_column),
            shown("/schema/tables", tables.tables),
            sent("/schema/tables", tables.save),
            shown("/schema/rules", schemas.rules),
            sent("/schema/rules", schemas.save_rules),
            shown("/schema/file", schemas.file),
            sent("/schema/file", schemas.save_file),
            sent("/schema/import", schemas.take),
            sent("/schema/start", schemas.start),
            sent("/schema/declare", schemas.declare),
            shown("/designs", pages.overview),
            sent("/designs", pages.create),
            shown("/compare", pages.compare),
            shown("/designs/{name}", pages.design),
            sent("/designs/{name}", pages.save),
            sent("/designs/{name}/preview", pages.preview, changes=False),
            shown("/designs/{name}/rehearsal", pages.rehearsal),
            sent("/designs/{name}/cancel", pages.cancel),
            shown("/designs/{name}/plan", pages.plan),
            shown("/designs/{name}/file", pages.file),
            sent("/designs/{name}/file", pages.save_file),
            shown("/agree", agreement.overview),
            shown("/designs/{name}/agree", agreement.agree),
            sent("/designs/{name}/comments", agreement.comment),
            sent("/designs/{name}/approve", agreement.record),
            sent("/designs/{name}/statement", agreement.take_statement),
            sent("/designs/{name}/require", agreement.require),
            sent("/designs/{name}/sign", agreement.sign),
            shown("/designs/{name}/export", export.download),
            shown("/shelf", shelf.shelf),
            shown("/shelf/ledger", shelf.ledger),
            shown("/shelf/release", shelf.release),
            sent("/shelf/verify", shelf.verify, changes=False),
            shown("/shelf/file", shelf.file),
            shown("/shelf/compare", shelf.compare),
            sent("/shelf/changes", shelf.changes, changes=False),
        ],
        exception_handlers={404: nowhere, 405: nowhere, 500: fault},
    )
    return Guard(app, desk.gate)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "studio.css":
        style = stylesheet() + (HERE / "static" / "studio.css").read_text(encoding="utf-8")
        return Response(style, media_type="text/css")
    if name == "studio.js":
        return Response(
            (HERE / "static" / "studio.js").read_text(encoding="utf-8"), media_type="text/javascript"
        )
    return PlainTextResponse("There is no such file.\n", status_code=404)


@contextlib.contextmanager
def _entrance(folder: Folder, gate: Gate) -> Iterator[Path]:
    """Keep a page, for this user's eyes alone, that leads to the address with its token.

    A browser is started with the name of this file: what a program is started with can be read by every user of the machine, and the token lets in whoever is first.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix="enter-", suffix=".html", dir=folder.hidden)
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(leading_to(gate.address))
    except OSError as error:
        raise OutputError(f"The studio cannot write to {str(folder.root)!r}: {error.strerror}.") from None
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def serve(
    root: str | Path, *, port: int = 0, browser: bool = True, announce: Callable[[str], None] = print
) -> None:
    """Serve a folder on loopback until interrupted.

    Parameters
    ----------
    root
        The folder.
    port
        Where to listen; 0 takes a free port.
    browser
        Whether to open a browser.
    announce
        Told the address once, token included, when the studio answers.

    Notes
    -----
    The browser is given a file that leads to the address, and not the address itself; one that may not read the file shows nothing, and the address that was announced is opened by hand.
    """
    import uvicorn

    folder = Folder(root)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise OutputError(
            f"The studio cannot listen on port {port}: {error.strerror}. Choose another, or 0 for any."
        ) from None
    gate = Gate(listener.getsockname()[1])
    try:
        folder.lock(gate.origin)
        desk = Desk(folder, gate)
        config = uvicorn.Config(
            create_app(desk),
            log_level="critical",
            access_log=False,
            lifespan="off",
            server_header=False,
            date_header=False,
            ws="none",
            timeout_graceful_shutdown=2,
        )
        threading.Thread(target=warm_up, daemon=True).start()
        announce(gate.address)
        with _entrance(folder, gate) as page:
            if browser:
                webbrowser.open(page.as_uri())
            try:
                uvicorn.Server(config).run(sockets=[listener])
            except KeyboardInterrupt:
                pass  # this is how a studio is stopped
            finally:
                desk.close()
    finally:
        folder.unlock()
        listener.close()
