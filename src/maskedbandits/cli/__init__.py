"""The command line: one file for each verb, thin over the library.

Heavy libraries (numpy, numba, matplotlib, rich) are imported inside the verbs that need them, so that `--help` is fast.
"""

from __future__ import annotations

from typing import Any

import click

from maskedbandits._util import safe_text
from maskedbandits.cli import (  # files are named as verbs
    audit,
    backup,
    bound,
    compile,  # noqa: A004
    data,
    demo,
    evaluate,
    export,
    key,
    plan,
    policies,
    replay,
    report,
    run,
    serve,
    upgrade,
)
from maskedbandits.cli.output import SlowProgress, drop_output
from maskedbandits.cli.verb import (
    FAILED,
    INTERRUPTED,
    UNMADE,
    USAGE,
    Failure,
    Interrupted,
    UsageFailure,
    describe_os_error,
    escape_errors,
)
from maskedbandits.errors import UserError

__all__ = ["FAILED", "INTERRUPTED", "UNMADE", "USAGE", "SlowProgress", "main"]


class Verbs(click.Group):
    """The verbs; every error and every Ctrl-C ends in one line."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the command line, with output that any encoding can write."""
        safe_text.allow_any_text()
        return super().main(*arguments, **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the verb."""
        with escape_errors():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb, with escaped errors."""
        with escape_errors():
            return self.invoke_verb(ctx)

    def invoke_verb(self, ctx: click.Context) -> Any:
        """Run a verb and turn its exceptions into exit codes."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            raise UsageFailure(str(error)) from error
        except BrokenPipeError:
            raise  # as in `| head`: click ends quietly
        except OSError as error:
            drop_output()
            raise Failure(describe_os_error(error)) from error
        except MemoryError as error:
            raise Failure(f"not enough memory. {error}".strip()) from error
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="maskedbandits")
def main() -> None:
    """Choose again and again, under local differential privacy, in a changing world."""


for verb in (
    run.run,
    report.report,
    plan.plan,
    bound.bound,
    policies.policies,
    data.data,
    compile.compile_policies,
    audit.audit,
    serve.serve,
    demo.demo,
    key.key,
    replay.replay,
    evaluate.evaluate,
    export.export,
    backup.backup,
    backup.restore,
    upgrade.upgrade,
):
    main.add_command(verb)
