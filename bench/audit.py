"""What the audit finds: every leaking program of the tests, by what it was found, and how often sound ones are refuted.

Programs run in this process, as eight runs would, at a claim of epsilon = 1 and a confidence of 99 %. Programs that
only short starts find (seeds, standard error, exit codes, time) are real processes; `--starts 0` leaves them out.

    make bench-audit                 # or: python -m bench.audit [--clean 200] [--starts 0] [--only PROGRAM]
"""

import argparse
import importlib
import shlex
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from maskedbandits.privacy.audit import Findings, audit_program, inputs
from maskedbandits.privacy.audit.groups import judge_groups
from maskedbandits.privacy.audit.inputs import draw_group_inputs, format_lines
from maskedbandits.privacy.audit.result import GroupFindings
from maskedbandits.privacy.audit.run import judge_reports
from maskedbandits.privacy.audit.statistics import clopper_pearson_upper

PROGRAMS = Path(__file__).parents[1] / "tests" / "privacy"
CONFIDENCE = 0.99
BITS = {
    "never_flips": 2000,
    "every_second_raw": 2000,
    "one_noise_for_two": 5000,
    "second0": 2000,
    "third0": 2000,
    "same2": 2000,
    "parity6": 2000,
    "parity8_of_every_second": 2000,
    "parity_of_100": 4000,
    "parity_of_all": 2000,
    "three_hundred_back": 6000,
    "xor_of_11_and_29": 6000,
}
GROUPS = {
    ("trusts_the_question", "bit"): 1500,
    ("believes_up_to_ten", "bit"): 1500,
    ("believes_up_to_ten", "one of many"): 1500,
    ("believes_between_5_and_8", "bit"): 1500,
    ("believes_between_9_and_16", "one of many"): 1500,
    ("believes_between_6_and_7", "bit"): 4000,
    ("weaker_for_two_arms", "bit"): 1500,
    ("weaker_for_two_arms", "one of many"): 1500,
    ("weaker_for_one_sign_pattern", "bit"): 2000,
    ("weaker_by_the_parity_of_six_rewards", "one of many"): 1500,
}
STARTED = {
    "seed_of_sixteen_bits": 1536,
    "seed_from_the_process_number": 32,
    "logs_ones": 32,
    "logs_ones_from_the_second_line": 32,
    "ends_with_the_bit": 32,
    "is_slower_for_ones": 100,
}


def programs(name: str) -> Any:
    """Return the leaking programs of the tests."""
    sys.path.insert(0, str(PROGRAMS))
    return importlib.import_module(name)


def judge_bit_program(name: str, trials: int) -> Findings:
    """Judge a program of bits."""
    mutants, opening = programs("mutants"), inputs.choose_opening_length(1.0, trials)
    questions, reports = inputs.draw_bit_inputs(trials, opening), []
    for bits in questions:
        mutants.begin()
        reports.append([getattr(mutants, name)(bit, 1.0, "").encode() for bit in bits.tolist()])
    return judge_reports(name, Fraction(1), CONFIDENCE, questions, reports, 1, opening)


def judge_group_program(name: str, answers: str, trials: int, groups: int = 5) -> GroupFindings:
    """Judge a device of groups."""
    mutants, opening = programs("group_mutants"), inputs.choose_opening_length(1.0, trials * groups)
    questions, reports = draw_group_inputs(groups, groups, answers, trials, opening, Fraction(1)), []
    for run in questions:
        mutants.begin()
        lines = map(mutants.read, format_lines(run, Fraction(1)).decode().splitlines())
        reports.append([getattr(mutants, name)(line, 1.0).encode() for line in lines])
    return judge_groups(name, Fraction(1), CONFIDENCE, answers, questions, reports, opening)


def found_by(found: Findings) -> str:
    """Return what shows a leak most clearly."""
    if found.outcome == "not refuted":
        return "NOT FOUND"
    if found.starts is not None and (found.starts.is_fixed or found.starts.leaks):
        same = f"{found.starts.same} and {found.starts.same_numbered} starts alike"
        return found.starts.leaks[0] if found.starts.leaks else f"seeds: {same}"
    strata = found.strata if isinstance(found, GroupFindings) else ()
    contexts = [] if found.noise is None else [(one.epsilon, one.name) for one in found.noise.contexts]
    shown = [*((one.epsilon, one.name.strip()) for one in (*found.events, *strata)), *contexts]
    epsilon, name = max(shown)
    return f"{name or 'all answers'}: epsilon at least {epsilon:.2f}"


def row(name: str, trials: str, found: Findings) -> None:
    """Print a row of the table."""
    print(f"| `{name}` | {trials} | {found.outcome} | {found_by(found)} |", flush=True)


def main() -> None:
    """Print the table, and how often sound programs are refuted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clean", type=int, default=200, help="audits of sound programs, of each kind")
    parser.add_argument("--starts", type=int, default=1536, help="short starts, at most")
    known = sorted({*BITS, *(name for name, _ in GROUPS), *STARTED})
    parser.add_argument(
        "--only", action="append", choices=known, metavar="PROGRAM", help="its rows alone; may be given several times"
    )
    given = parser.parse_args()
    wanted = set(given.only or known)
    print("| program | trials for each input | outcome | found by |\n|---|--:|---|---|")
    for name, trials in BITS.items():
        if name in wanted:
            row(name, f"{trials:,}", judge_bit_program(name, trials))
    for (name, answers), trials in GROUPS.items():
        if name in wanted:
            row(f"{name}, {answers}", f"{trials:,}", judge_group_program(name, answers, trials))
    for name, starts in STARTED.items():
        if name in wanted and starts <= given.starts:
            command = shlex.join([sys.executable, str(PROGRAMS / "mutants.py"), name, "1"])
            row(name, f"{starts:,} starts", audit_program(command, 1, 1000, CONFIDENCE, timeout=600, starts=starts))
    if not given.only:
        false_alarms(given.clean)


def false_alarms(audits: int) -> None:
    """Print how often sound programs are refuted."""
    refuted = sum(judge_bit_program("sound", 1000).outcome != "not refuted" for _ in range(audits))
    share = float(clopper_pearson_upper(np.array(refuted), np.array(audits), 0.025))
    print(f"\nsound bits: {refuted} of {audits} audits refuted, at most {share:.2%} (97.5 % confidence)", flush=True)
    kinds = [("bit", 200), ("one of many", 200)]
    refuted = sum(
        judge_group_program("sound", *kinds[audit % 2], 3).outcome not in ("not refuted", "cannot tell")
        for audit in range(audits)
    )
    share = float(clopper_pearson_upper(np.array(refuted), np.array(audits), 0.025))
    print(f"sound groups: {refuted} of {audits} audits refuted, at most {share:.2%} (97.5 % confidence)")


if __name__ == "__main__":
    main()
