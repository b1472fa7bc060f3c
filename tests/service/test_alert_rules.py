"""The example alerts for Prometheus: well-formed, and about metrics that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from maskedbandits.service.dashboard import alerts
from maskedbandits.service.server.metrics import METRICS, ROUTES, STATUSES

FILE = Path(__file__).parents[2] / "packaging" / "prometheus" / "alerts.yaml"
PROMETHEUS_OWN = {"up"}
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "gauge": ("",), "counter": ("",)}
SERIES = {f"{name}{suffix}": metric for name, metric in METRICS.items() for suffix in SUFFIXES[metric.kind]}


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    return list(group["rules"])


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_rule_is_complete_and_names_known_series(rule: dict[str, Any]) -> None:
    assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"].keys() == {"summary", "action"}
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
    selected = re.findall(r"\b((?:maskedbandits|process)_\w+|up\b)(?:\{([^}]*)\})?", rule["expr"])
    assert selected
    for name, matchers in selected:
        assert name in SERIES.keys() | PROMETHEUS_OWN
        labels = set(re.findall(r"(\w+)=~?\"", matchers))
        assert labels <= ({"job"} if name in PROMETHEUS_OWN else {*SERIES[name].labels})
    shown = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    assert shown <= {label for name, _ in selected if name in SERIES for label in SERIES[name].labels}


def test_values_of_labels_exist() -> None:
    text = " ".join(rule["expr"] for rule in rules())
    kinds = set(re.findall(r'kind="(\w+)"', text))
    source = Path(alerts.__file__).read_text(encoding="utf-8")
    assert kinds
    assert all(f'"{kind}"' in source for kind in kinds)
    assert {*re.findall(r'route="(\w+)"', text)} <= {*ROUTES}
    codes = {int(code) for pattern in re.findall(r'status=~"([\d|]+)"', text) for code in pattern.split("|")}
    assert codes
    assert codes <= {*STATUSES}


def test_every_kind_of_alert_has_a_rule() -> None:
    """The kinds are those for which the dashboard has a word."""
    source = (Path(alerts.__file__).parent / "page" / "dashboard.js").read_text(encoding="utf-8")
    [words] = re.findall(r"const WORDS = \{(.*?)\};", source, re.DOTALL)
    kinds = set(re.findall(r"(\w+):", words))
    assert {"suspect", "unmasked", "bias"} <= kinds
    kinds.remove("aside")  # a quarantined experiment has a metric of its own
    assert kinds == set(re.findall(r'kind="(\w+)"', str([rule["expr"] for rule in rules()])))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not here: apt-get install prometheus")
def test_promtool_finds_nothing_wrong() -> None:
    done = subprocess.run(
        [str(shutil.which("promtool")), "check", "rules", str(FILE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(rules())} rules found" in done.stdout
