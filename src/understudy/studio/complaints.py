"""What is wrong with what somebody typed, beside the fields where it was typed."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Complaints"]


@dataclass
class Complaints:
    """What is wrong, by the name of the field that it stands beside; what belongs to no field stands on top."""

    by_field: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        """Note one problem."""
        self.by_field.setdefault(name, []).append(text)

    def of(self, name: str) -> list[str]:
        """Return the problems of one field."""
        return self.by_field.get(name, [])

    @property
    def on_top(self) -> list[str]:
        """Problems that belong to no field."""
        return self.by_field.get("", [])

    def __bool__(self) -> bool:
        return bool(self.by_field)

    def __len__(self) -> int:
        return sum(map(len, self.by_field.values()))
