"""What goes wrong from outside: kills, full disks, spoilt files."""
