"""`python -m truespan` is the command line."""

from truespan.cli import main

if __name__ == "__main__":
    main()
