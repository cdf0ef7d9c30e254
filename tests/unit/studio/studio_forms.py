"""What a browser would send of the forms on the pages of the studio."""

from __future__ import annotations

import html
import re


def fields_of(text: str) -> dict[str, str]:
    """Return what a browser would send of the first form with controls on a page."""
    found: dict[str, str] = {}
    for name, kind, value in re.findall(
        r'<input id="[^"]*" name="([^"]+)" type="(\w+)" value="([^"]*)"', text
    ):
        if kind != "checkbox":
            found[name] = html.unescape(value)
    for name, value in re.findall(
        r'<input[^>]* name="([^"]+)" type="checkbox" value="([^"]*)" checked', text
    ):
        found[name] = value
    for name, value in re.findall(
        r'<textarea id="[^"]*" name="([^"]*)"[^>]*>\n(.*?)</textarea>', text, re.DOTALL
    ):
        found[name] = html.unescape(value)
    for name, body in re.findall(r'<select id="[^"]*" name="([^"]*)"[^>]*>(.*?)</select>', text, re.DOTALL):
        options = re.findall(r'<option(?: value=("[^"]*"))?( selected)?>([^<]*)', body)
        value, _, label = next((item for item in options if item[1]), options[0])
        found[name] = html.unescape(value.strip('"') if value else label)
    return found
