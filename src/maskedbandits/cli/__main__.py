"""`python -m maskedbandits.cli` is the command line."""

from maskedbandits.cli import main

if __name__ == "__main__":
    main(prog_name="maskedbandits")
