"""Tables and figures of the five source papers."""
