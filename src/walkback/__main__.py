"""`python -m walkback`: the command line."""

from walkback.cli import main

main()
