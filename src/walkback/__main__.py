"""`walkback` and `python -m walkback`: the command line."""

import sys


def main() -> None:
    """Import the command line, which Ctrl-C ends as it ends any command, and run it."""
    try:
        from walkback.cli import main as command
    except KeyboardInterrupt:
        print("walkback: interrupted", file=sys.stderr)
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
