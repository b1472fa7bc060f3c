"""`python -m maskedbandits` is the command line."""

from maskedbandits.cli import main

if __name__ == "__main__":
    main(prog_name="maskedbandits")
