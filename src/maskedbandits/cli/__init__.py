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
    compact,
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


SUMMARY_LETTERS = 64  # what is left of 80 columns beside the names of verbs

TOPICS: dict[str, tuple[click.Command, ...]] = {
    "Experiments": (run.run, report.report, policies.policies, bound.bound, compile.compile_policies),
    "Privacy": (plan.plan, audit.audit),
    "Service": (
        serve.serve,
        demo.demo,
        key.key,
        backup.backup,
        backup.restore,
        compact.compact,
        upgrade.upgrade,
        replay.replay,
    ),
    "Data": (data.data, evaluate.evaluate, export.export),
}


class Verbs(click.Group):
    """The verbs; every error and every Ctrl-C ends in one line."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the command line, with output that any encoding can write."""
        safe_text.allow_any_text()
        return super().main(*arguments, **options)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs by topic, each with its first sentence."""
        width = max(map(len, self.commands))
        for topic, verbs in TOPICS.items():
            with formatter.section(topic):
                formatter.write_dl(
                    [(f"{verb.name:{width}}", verb.get_short_help_str(SUMMARY_LETTERS)) for verb in verbs]
                )

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


@click.group(
    "maskedbandits", cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="maskedbandits")
def main() -> None:
    """Private bandits: choose the best option from locally randomised feedback.

    Start with `maskedbandits demo`, or `maskedbandits run experiments/paper.toml`. `maskedbandits VERB --help` explains
    a verb.
    """


for topic_verbs in TOPICS.values():
    for verb in topic_verbs:
        main.add_command(verb)
