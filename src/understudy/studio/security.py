"""Who may talk to the studio: one browser on this machine, which was given the address with its token.

What is kept out, and how:

- *Other machines*: the server binds to loopback alone.
- *Other programs and other users of this machine*: the token in the address is used once, for a cookie that scripts cannot read; it is in no list of processes.
  What is not kept out: browsers send a cookie to every port of a machine, so a page of another user's server on this machine, opened in the same browser, is told it.
- *Other web sites in the same browser*: the cookie is ``SameSite=Strict``; a request has to name this server as its ``Host`` (a name that somebody
  else's DNS points to loopback is refused) and, where it changes something, as its ``Origin``; every form carries a token of its own.
- *Markup in what people type, and in files of the folder*: templates escape, and the policy of every page allows no script or style but the
  studio's own files.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from html import escape
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["ENTRANCE", "MAX_BODY", "POLICY", "Gate", "Guard", "leading_to"]

ENTRANCE = "/enter"
MAX_BODY = 6 << 20
"""Largest request, in bytes: a file of 5 MB and what goes around it."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def leading_to(address: str) -> str:
    """Return a page that goes on to an address by itself.

    Examples
    --------
    >>> 'url=/"' in leading_to("/")
    True
    """
    shown = escape(address)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Understudy studio</title><link rel="icon" href="data:,">'
        f'<meta http-equiv="refresh" content="0; url={shown}"></head><body><p><a href="{shown}">Go on to the studio</a></p></body></html>'
    )


class Gate:
    """The secrets of one running studio.

    Parameters
    ----------
    port
        Where it listens: part of the names it answers to, and of the name of its cookie, since cookies of one machine are not kept apart by port.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.token = secrets.token_urlsafe(32)
        self._used = False
        self._session = secrets.token_urlsafe(32)
        self._secret = secrets.token_bytes(32)

    @property
    def origin(self) -> str:
        """The address of the studio without its token."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """The address to open once."""
        return f"{self.origin}{ENTRANCE}?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a request may name as its host."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def cookie(self) -> str:
        """Name of the cookie."""
        return f"understudy-studio-{self.port}"

    @property
    def form_token(self) -> str:
        """What every form has to carry."""
        return hmac.new(self._secret, b"form", hashlib.sha256).hexdigest()

    def admit(self, token: str) -> str | None:
        """Exchange the token of the address for the value of the cookie, once."""
        if self._used or not hmac.compare_digest(token.encode("utf-8"), self.token.encode("utf-8")):
            return None
        self._used = True
        return self._session

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Say whether a request carries the cookie."""
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(
            found.value.encode("utf-8"), self._session.encode("utf-8")
        )

    def carries(self, token: object) -> bool:
        """Say whether the token of a form is the right one."""
        return isinstance(token, str) and hmac.compare_digest(
            token.encode("utf-8", "replace"), self.form_token.encode("ascii")
        )


class Guard:
    """Stands before the application and lets nothing pass that is not from the one browser."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request."""
        if scope["type"] != "http":
            return  # no websockets, and nothing to do at start and end
        headers = Headers(scope=scope)
        answer = self._refusal(scope, headers)
        if answer is None and scope["path"] == ENTRANCE:
            answer = self._enter(scope, headers)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    given.setdefault(name, value)
            await send(message)

        await (answer or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        gate, method = self._gate, scope["method"]
        if headers.getlist("host") not in [[host] for host in gate.hosts]:
            return _refused(400, "This address is not the studio's.")
        if method not in ("GET", "HEAD", "POST"):
            return _refused(405, "The studio knows GET and POST alone.")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and scope["path"] != ENTRANCE:
            return _refused(403, "A request from another site is refused.")
        if scope["path"] != ENTRANCE and not gate.knows(headers):
            return _refused(
                403,
                "The studio lets in whoever opens the address that it printed when it was started, once. If that was used already in another browser, "
                "stop the studio and start it again.",
            )
        if method == "POST":
            if headers.getlist("origin") != [f"http://{headers['host']}"]:
                return _refused(
                    403, "A request that changes something has to come from a page of the studio."
                )
            length = headers.get("content-length", "")
            if not length.isdecimal():
                return _refused(411, "The length of a request has to be stated.")
            if int(length) > MAX_BODY:
                return _refused(413, "That is too much: a file may have 5 MB.")
        return None

    def _enter(self, scope: Scope, headers: Headers) -> Response:
        gate = self._gate
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
        session = gate.admit(given[0]) if len(given) == 1 and scope["method"] == "GET" else None
        if session is None and not gate.knows(headers):
            return _refused(
                403,
                "This token is not the studio's, or was used before. Stop the studio and start it again for a new one.",
            )
        # A page that goes on by itself, and no redirection: what follows is then asked for by this site, as a strict cookie wants it.
        answer = HTMLResponse(leading_to("/"))
        if session is not None:
            answer.set_cookie(gate.cookie, session, httponly=True, samesite="strict", path="/")
        return answer


def _refused(status: int, why: str, more: Iterable[str] = ()) -> Response:
    return PlainTextResponse("\n".join([why, *more]) + "\n", status_code=status)
