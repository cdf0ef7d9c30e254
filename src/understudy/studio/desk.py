"""What all pages share: the folder, the templates, forms with their token, and errors as pages."""

from __future__ import annotations

import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from understudy.errors import UnderstudyError, UsageError
from understudy.studio.background.plans import Plans
from understudy.studio.background.rehearsals import Rehearsals
from understudy.studio.folder import MAX_TEXT_BYTES, Folder
from understudy.studio.security import Gate

__all__ = ["Desk", "Form", "Page", "Stale", "handler"]

HERE = Path(__file__).parent
_MOST_FIELDS = 2_000
_MOST_FILES = 1

Page = Callable[["Desk", Request], Response]
"""A page that answers from what is on the disk."""


class Stale(Exception):
    """A form that was made from a version of a file that is no longer there."""


class Form:
    """What somebody sent: fields by name, without surprises about types.

    Parameters
    ----------
    data
        As the server parsed it.
    files
        Files that were sent along, by field: name and content.
    """

    def __init__(self, data: Mapping[str, Sequence[str]], files: Mapping[str, tuple[str, bytes]]) -> None:
        self._data, self.files = data, files

    def text(self, name: str, default: str = "") -> str:
        """Return a field with the line ends of this system; the default if it is absent."""
        found = self._data.get(name)
        return default if not found else found[-1].replace("\r\n", "\n").replace("\r", "\n")

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def all(self, name: str) -> list[str]:
        """Return every value of a field."""
        return list(self._data.get(name, ()))

    @property
    def names(self) -> list[str]:
        """The names of all fields."""
        return list(self._data)


def field_words(name: str) -> str:
    """Return the name of a field in words; criteria are counted from 1.

    Examples
    --------
    >>> field_words("criterion-2-threshold"), field_words("criterion-0-more"), field_words("total_epsilon")
    ('criterion 3, threshold', 'criterion 1, of what', 'total epsilon')
    """
    found = re.fullmatch(r"criterion-([0-9]+)-(\w+)", name)
    if found is None:
        return name.replace("_", " ").replace("-", " ")
    part = {"more": "of what"}.get(found.group(2), found.group(2))
    return f"criterion {int(found.group(1)) + 1}, {part}"


class Desk:
    """One running studio.

    Parameters
    ----------
    folder, gate
        Where its files are, and who may talk to it.
    """

    def __init__(self, folder: Folder, gate: Gate) -> None:
        self.folder, self.gate = folder, gate
        self.rehearsals = Rehearsals(folder)
        self.plans = Plans(folder)
        self.changing = threading.Lock()

    def close(self) -> None:
        """End everything that runs in the background."""
        self.rehearsals.close()
        self.plans.close()

    @cached_property
    def _templates(self) -> Environment:
        made = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        made.filters["path"] = lambda text: quote(str(text), safe="")
        made.filters["field"] = field_words
        made.filters["thousands"] = lambda number: f"{number:,}"
        made.filters["svg"] = Markup  # pictures are made by our own code, which escapes every word in them
        made.globals["token"] = self.gate.form_token
        return made

    def render(self, template: str, *, status: int = 200, **content: Any) -> Response:
        """Return a page."""
        return HTMLResponse(self._templates.get_template(template).render(**content), status_code=status)

    def go(self, address: str) -> Response:
        """Send the browser to another page after something was changed: reloading that one changes nothing."""
        return RedirectResponse(address, status_code=303)

    def problem(self, error: UnderstudyError | Stale, *, status: int = 400) -> Response:
        """Return a page that says what is wrong."""
        code = "" if isinstance(error, Stale) else error.code
        return self.render("problem.html", status=status, here="", message=str(error), code=code)

    async def form(self, request: Request) -> Form:
        """Read a form and check its token.

        Raises
        ------
        UsageError
            If the token is absent or wrong, or a file is too large.
        """
        async with request.form(
            max_files=_MOST_FILES, max_fields=_MOST_FIELDS, max_part_size=MAX_TEXT_BYTES + 4096
        ) as data:
            fields, files = await _taken(data)
        if not self.gate.carries((fields.get("token") or [""])[-1]):
            raise UsageError(
                "The form does not carry the token of this studio. It was perhaps opened before the studio was started again: reload the page."
            )
        return Form(fields, files)


async def _taken(data: FormData) -> tuple[dict[str, list[str]], dict[str, tuple[str, bytes]]]:
    fields: dict[str, list[str]] = {}
    files: dict[str, tuple[str, bytes]] = {}
    for name, value in data.multi_items():
        if isinstance(value, UploadFile):
            content = await value.read(MAX_TEXT_BYTES + 1)
            if value.filename:
                files[name] = (Path(value.filename).name[:200], content)
        else:
            fields.setdefault(name, []).append(value)
    return fields, files


def handler(
    desk: Desk, answer: Callable[..., Response], *, form: bool = False, changes: bool = False
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that answers in a thread and turns deliberate errors into pages.

    What changes files is done one after the other: the version of a file that a form was made from is compared, and another one written, with nobody in between.
    """

    def alone(*given: Any) -> Response:
        with desk.changing:
            return answer(*given)

    async def endpoint(request: Request) -> Response:
        try:
            if form:
                given = await desk.form(request)
                return await run_in_threadpool(alone if changes else answer, desk, request, given)
            return await run_in_threadpool(answer, desk, request)
        except Stale as error:
            return desk.problem(error, status=409)
        except UsageError as error:
            missing = str(error).startswith(("There is no", "No such"))
            return desk.problem(error, status=404 if missing else 400)
        except UnderstudyError as error:
            return desk.problem(error, status=422)

    return endpoint
