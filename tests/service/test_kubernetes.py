"""The manifests and the Helm chart: valid for Kubernetes, safe, and in agreement with the service."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from scripts import charts

from maskedbandits import __version__
from maskedbandits.service.app import OPERATIONS
from maskedbandits.service.rate_limits import ClientAddresses
from maskedbandits.service.server.settings import load_settings
from maskedbandits.service.server.supervisor import GRACE_S

VERSION = "1.30"  # of Kubernetes
ALL = {
    "autoscaling": {"enabled": True},
    "networkPolicy": {"enabled": True, "ingressPodLabels": {"app": "proxy"}},
    "podAnnotations": {"a": "b"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "settings": {"cors": "https://shop.example", "address_rate": 50.5, "access_log": True},
    "image": {"tag": "7"},
}
CHOICES: list[dict[str, Any]] = [{}, ALL, {"disruptionBudget": {"enabled": False}, "resources": {}}]


def render(values: dict[str, Any]) -> dict[str, Any]:
    """Return the objects of the chart by kind."""
    objects = [yaml.safe_load(text) for text in charts.Chart().render(values).values()]
    return {each["kind"]: each for each in objects}


def pod(objects: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = objects["Deployment"]["spec"]["template"]["spec"]
    return found


def container(objects: dict[str, Any]) -> dict[str, Any]:
    [found] = pod(objects)["containers"]
    return dict(found)


def environment(objects: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container(objects)["env"] if "value" in each}


@pytest.mark.parametrize("values", CHOICES, ids=["default", "all", "least"])
def test_rendered_chart_is_valid(values: dict[str, Any]) -> None:
    chart = charts.Chart()
    jsonschema.validate(charts.merge(chart.values, values), chart.schema)
    objects = render(values)
    for each in objects.values():
        kubernetes_validate.validate(each, VERSION, strict=True)
    wanted = {"Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy"}
    missing = {"all": set(), "default": {"HorizontalPodAutoscaler", "NetworkPolicy"}}
    if values == ALL or not values:
        assert wanted - objects.keys() == missing["all" if values else "default"]
    else:
        assert objects.keys() == {"Deployment", "Service"}


def test_validation_notices_a_wrong_field() -> None:
    objects = render({})
    container(objects)  # there is one
    pod(objects)["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(objects["Deployment"], VERSION, strict=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"replicas": 0},
        {"replica": 2},
        {"settings": {"storage": "x"}},
        {"settings": {"body_limit": 1 << 20}},  # Helm would print 1.048576e+06
        {"service": {"type": "x"}},
        {"workers": "two"},
        {"settings": {"trusted_proxies": "proxy.internal"}},
        {"settings": {"trusted_proxies": ""}},  # the service would trust loopback, and the site share one address
    ],
)
def test_schema_refuses_wrong_values(wrong: dict[str, Any]) -> None:
    chart = charts.Chart()
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(charts.merge(chart.values, wrong), chart.schema)


def test_every_value_is_used_and_in_the_schema() -> None:
    chart = charts.Chart()
    templates = "".join(path.read_text(encoding="utf-8") for path in charts.CHART.glob("templates/*.*"))
    for name, value in chart.values.items():
        assert name in chart.schema["properties"]
        inner = value if isinstance(value, dict) and "properties" in chart.schema["properties"][name] else {}
        for path in [f"{name}.{each}" for each in inner] or [name]:
            assert f".Values.{path}" in templates, path


def test_manifests_are_those_of_the_chart() -> None:
    text = charts.MANIFESTS.read_text(encoding="utf-8")
    assert text == charts.build_manifests()
    for each in yaml.safe_load_all(text):
        kubernetes_validate.validate(each, VERSION, strict=True)


def test_selectors_match_the_pods() -> None:
    objects = render(ALL)
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        objects["Deployment"]["spec"]["selector"]["matchLabels"],
        objects["Service"]["spec"]["selector"],
        objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        pod(objects)["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ]
    assert all(each and each.items() <= labels.items() for each in selectors)
    target = objects["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"]
    assert target == objects["Deployment"]["metadata"]["name"]
    assert "replicas" not in objects["Deployment"]["spec"]  # the autoscaler's


def test_environment_is_understood_by_the_service() -> None:
    secret = {"MASKEDBANDITS_STORAGE": "postgresql://bandits@db/bandits", "MASKEDBANDITS_SECRET": "0" * 64}
    for values in CHOICES:
        objects = render(values)
        given = environment(objects) | secret
        settings = load_settings({}, given)
        assert (settings.host, settings.workers) == ("0.0.0.0", 1)  # noqa: S104
        assert settings.port == container(objects)["ports"][0]["containerPort"]
        names = {each["name"] for each in container(objects)["env"]}
        assert names == given.keys()
    assert (settings.log_format, load_settings({}, environment(render(ALL)) | secret).address_rate) == ("json", 50.5)


def test_visitors_behind_an_ingress_have_own_addresses() -> None:
    secret = {"MASKEDBANDITS_STORAGE": "postgresql://bandits@db/bandits", "MASKEDBANDITS_SECRET": "0" * 64}
    addresses = ClientAddresses(load_settings({}, environment(render({})) | secret).trusted_proxies)
    for ingress in ("10.42.0.7", "172.20.1.1", "192.168.3.4", "100.64.0.9", "fd00::7"):
        assert addresses.resolve(ingress, "203.0.113.5, 198.51.100.9") == "198.51.100.9"
    assert addresses.resolve("203.0.113.5", "198.51.100.9") == "203.0.113.5"  # no proxy of the cluster


def test_probes_ask_routes_that_need_no_key() -> None:
    paths = {operation.path: operation.role for operation in OPERATIONS if operation.method == "GET"}
    asked = {name: container(render({}))[f"{name}Probe"] for name in ("startup", "readiness", "liveness")}
    assert {name: probe["httpGet"]["path"] for name, probe in asked.items()} == {
        "startup": "/readyz",
        "readiness": "/readyz",
        "liveness": "/healthz",  # a store that is away is no reason to restart
    }
    assert all(paths[probe["httpGet"]["path"]] == "" for probe in asked.values())
    assert asked["startup"]["periodSeconds"] * asked["startup"]["failureThreshold"] >= 120  # it may compile


def test_stop_leaves_time_for_requests() -> None:
    objects = render({})
    pause = int(container(objects)["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod(objects)["terminationGracePeriodSeconds"] >= pause + load_settings({}, {}).stop_after + GRACE_S


def test_pods_may_do_little() -> None:
    spec = pod(render({}))
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False  # or variables named after the Service would look like settings
    assert spec["securityContext"]["runAsNonRoot"] is True
    folders = {each["mountPath"] for each in spec["containers"][0]["volumeMounts"]}
    assert folders == {"/cache", "/tmp"}  # noqa: S108
    for each in (*spec["containers"], *spec["initContainers"]):
        context = each["securityContext"]
        assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
        assert context["capabilities"] == {"drop": ["ALL"]}


def test_versions_and_user_match_the_image() -> None:
    chart = charts.Chart()
    assert chart.about["appVersion"] == __version__
    image = (charts.ROOT / "packaging" / "container" / "Containerfile").read_text(encoding="utf-8")
    user = pod(render({}))["securityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}\n" in image
    assert "ENV MASKEDBANDITS_CACHE=/var/cache/maskedbandits\n" in image
    assert "/var/cache/maskedbandits/" in pod(render({}))["initContainers"][0]["command"][2]


def test_renderer_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    folder = shutil.copytree(charts.CHART, tmp_path / "chart")
    (folder / "templates" / "odd.yaml").write_text("{{ .Values.replicas | sha256sum }}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="sha256sum"):
        charts.Chart(folder).render()


def test_renderer_follows_the_template_language(tmp_path: Path) -> None:
    """Each line is one rule of Go's templates, beside what Helm prints for it."""
    rules = {
        'a: {{ .Values.none | default "x" | quote }}': 'a: "x"',
        "b: {{ .Values.yes }}": "b: true",
        "c:{{- .Values.list | toYaml | nindent 2 }}": "c:\n  - 1\n  - 2",
        "{{ if not .Values.yes }}d{{ else }}e{{ end }}": "e",
        "{{ with .Values.none }}f{{ end }}g": "g",
        "{{ range $k, $v := .Values.map }}{{ $k | upper }}={{ $v }};{{ end }}": "A=1;B=2;",
        "h {{- /* comment */ -}}  i": "hi",
    }
    folder = shutil.copytree(charts.CHART, tmp_path / "chart")
    values = {"none": "", "yes": True, "list": [1, 2], "map": {"b": 2, "a": 1}}
    for number, (template, wanted) in enumerate(rules.items()):
        (folder / "templates" / f"rule{number}.yaml").write_text(template, encoding="utf-8")
        assert charts.Chart(folder).render(values)[f"rule{number}.yaml"] == wanted, template


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not here")
@pytest.mark.parametrize("values", CHOICES, ids=["default", "all", "least"])
def test_helm_renders_the_same(values: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values), encoding="utf-8")
    command = [str(shutil.which("helm")), "template", "maskedbandits", str(charts.CHART), "--values", str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert {each["kind"]: each for each in yaml.safe_load_all(text) if each} == render(values)
