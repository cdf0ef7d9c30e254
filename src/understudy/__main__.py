"""``python -m understudy``: the command line, where the ``understudy`` script is not on the path."""

from understudy.cli.entry import main

if __name__ == "__main__":
    main()
