"""`python -m walkback`: the command line, by the interpreter that has it."""

from walkback.cli import main

main()
