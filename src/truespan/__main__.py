"""`python -m truespan` is the command line."""

from truespan.doors.cli import main

if __name__ == "__main__":
    main()
