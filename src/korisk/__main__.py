"""Lets `python -m korisk` do what the `korisk` command does."""

from korisk.cli import main

if __name__ == "__main__":
    main()
