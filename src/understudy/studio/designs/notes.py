"""What is said about a design beside its file: comments, and how it is rehearsed. Approvals have files of their own (`understudy.release.approvals`)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from understudy.errors import UsageError
from understudy.release.agreement import Comment
from understudy.studio.folder import Folder

__all__ = ["Notes"]

_LONGEST = 5_000
_MOST = 1_000


@dataclass
class Notes:
    """The notes of one design, in ``designs/NAME.notes.json``.

    Attributes
    ----------
    auto, why
        Whether the method is chosen by itself, and why it was.
    table, rows, trials
        What the design is rehearsed on, and how often.
    comments
        In their order.
    spoilt
        Whether the file could not be read: what was said is perhaps still in it, so nothing is signed without it or written over it.
    """

    auto: bool = True
    why: str = ""
    table: str = ""
    rows: int | None = None
    trials: int = 5
    comments: list[Comment] = field(default_factory=list)
    spoilt: bool = False

    @classmethod
    def read(cls, folder: Folder, name: str) -> Notes:
        """Read the notes of a design; a file that is none counts as empty."""
        try:
            plain = json.loads(folder.read(folder.designs / f"{folder.checked(name)}.notes.json") or "{}")
            made = cls(
                auto=bool(plain.get("auto", False)),
                why=str(plain.get("why", "")),
                table=str(plain.get("table", "")),
                rows=None if plain.get("rows") is None else int(plain["rows"]),
                trials=max(1, min(100, int(plain.get("trials", 5)))),
            )
            made.comments = [
                Comment(**{key: str(item[key]) for key in ("role", "name", "text", "time", "version")})
                for item in plain.get("comments", ())
            ]
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            return cls(auto=False, spoilt=True)
        return made

    def write(self, folder: Folder, name: str) -> None:
        """Keep the notes."""
        self.require(name)
        path = folder.designs / f"{folder.checked(name)}.notes.json"
        plain = {key: value for key, value in asdict(self).items() if key != "spoilt"}
        folder.write(path, json.dumps(plain, indent=2, ensure_ascii=False) + "\n")

    def require(self, name: str) -> None:
        """Refuse notes whose file could not be read.

        Raises
        ------
        UsageError
            Saying which file it is.
        """
        if self.spoilt:
            raise UsageError(
                f"The notes of this design (designs/{name}.notes.json) cannot be read, and comments that are in them would be lost. Put the file right, or move it away."
            )

    def add(self, *, role: str, name: str, text: str, version: str) -> None:
        """Add a comment."""
        if not name.strip() or not text.strip():
            raise UsageError("A comment needs a name and a text.")
        if len(text) > _LONGEST or len(name) > 200 or len(self.comments) >= _MOST:
            raise UsageError(f"A comment has at most {_LONGEST:,} letters, and a design {_MOST:,} comments.")
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        self.comments.append(Comment(role, name.strip(), text.strip(), now, version))
