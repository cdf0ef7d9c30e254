"""From values to codes and back: bins, cells, labels, calendars."""
