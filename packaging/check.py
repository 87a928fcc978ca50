"""The chart and the static pod, looked at as Kubernetes and Helm look at them: Helm's own engine lints and renders the chart, every object
is held against the schemas of Kubernetes, and what must be so for a DPUService is compared.

Run by packaging/check.sh, which brings the libraries along."""

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import helm_python as helm
import kubernetes_validate
import yaml

HERE = Path(__file__).parent
CHART = HERE / "helm" / "ringleader-dpu"
VERSION = "1.31"
# The program that configurations are for, where there is one.
AGENT = os.environ.get("AGENT")
CARGO = tomllib.loads((HERE.parent / "Cargo.toml").read_text())["workspace"]["package"]["version"]

VALUES = {
    "group": "orders",
    "members": {"1": "10.0.0.1:7400", "2": "10.0.0.2:7400", "3": "three.example:7400"},
    "nodes": {"dpu-1": 1, "dpu-2": 2},
    "configSecret": {"name": "orders-key"},
}


def changed(**changes):
    return VALUES | changes


def render(values, name="one"):
    """All objects, by kind and name."""
    with helm.Chart.load(str(CHART)) as chart:
        files = chart.render(values, name=name, namespace="ringleader")
    objects = {}
    for path, text in files.items():
        if not path.endswith(".yaml"):
            continue
        for thing in yaml.safe_load_all(text):
            if thing is None:
                continue
            kubernetes_validate.validate(thing, VERSION, strict=True)
            key = thing["kind"], thing["metadata"]["name"]
            assert key not in objects, f"{key} is there twice"
            objects[key] = thing
    return objects


def refused(values, why):
    try:
        render(values)
    except helm.HelmError as error:
        assert why in str(error), f"refused, and not because of {why!r}: {error}"
    else:
        raise AssertionError(f"not refused: {why}")


def daemon_set(objects):
    sets = [thing for (kind, _), thing in objects.items() if kind == "DaemonSet"]
    assert len(sets) == 1, "a DPUService's chart has exactly one DaemonSet"
    return sets[0]


def container(thing):
    [only] = thing["spec"]["template"]["spec"]["containers"]
    return only


def check_config(text):
    """The agent itself understands it: it finds that no acceptor runs, and nothing wrong."""
    if AGENT is None:
        return
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([AGENT, "status", "--config", file.name], capture_output=True, text=True)
        assert "no node runs there" in done.stderr, done.stderr


def check_chart():
    report = helm.lint(str(CHART), values=VALUES, strict=True)
    found = [message for message in report["messages"] if message["severity"] >= 2]
    assert report["total_charts_linted"] == 1 and not found and not report["errors"], report
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["version"] == about["appVersion"] == CARGO, "the chart's version is the crates'"
    assert "dpu.nvidia.com/doca-version" in about["annotations"]

    objects = render(VALUES)
    assert set(objects) == {("ConfigMap", "one-ringleader-dpu"), ("DaemonSet", "one-ringleader-dpu")}
    assert not set(objects) & set(render(VALUES, name="two")), "releases share nothing"

    the_set = daemon_set(objects)
    agent = container(the_set)
    for bound in ("requests", "limits"):
        assert agent["resources"][bound]["nvidia.com/bf_sf"] == "1", agent["resources"]
        assert agent["resources"][bound]["hugepages-2Mi"] == "128Mi", agent["resources"]
    assert agent["image"] == f"ringleader-dpu:{CARGO}"
    assert agent["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert agent["readinessProbe"]["httpGet"]["path"] == "/readyz"
    [term] = the_set["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["dpu-1", "dpu-2"]

    # Each DPU has its configuration, in which the file is mounted that is named like it.
    files = objects["ConfigMap", "one-ringleader-dpu"]["data"]
    assert set(files) == {"dpu-1.toml", "dpu-2.toml"}
    for name, node in VALUES["nodes"].items():
        config = tomllib.loads(files[f"{name}.toml"])
        assert config == {
            "group": "orders",
            "node": node,
            "fabric": "verbs",
            "members": VALUES["members"],
            "verbs": {"key_file": "/etc/ringleader/secret/group.key"},
            "dpu": {},
            "health": {"listen": "0.0.0.0:7490"},
        }, config
    more = render(changed(settings='timing = "hardware"', dpu='control = "/run/one"', tables='[kv]\nmax_clients = 5\n'))
    more = more["ConfigMap", "one-ringleader-dpu"]["data"]["dpu-1.toml"]
    config = tomllib.loads(more)
    assert (config["timing"], config["dpu"], config["kv"]) == ("hardware", {"control": "/run/one"}, {"max_clients": 5}), config
    check_config(files["dpu-1.toml"])
    check_config(more)
    secret = next(volume for volume in the_set["spec"]["template"]["spec"]["volumes"] if volume["name"] == "secret")
    assert secret["secret"] == {"secretName": "orders-key", "defaultMode": 0o400}, secret

    # What the DOCA Platform Framework sets arrives where it looks for it.
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
    set_by_it = {
        "labels": {"svc.dpu.nvidia.com/service": "ringleader"},
        "annotations": {"k8s.v1.cni.cncf.io/networks": "mybrsfc"},
        "nodeSelector": {"nodeSelectorTerms": terms},
        "updateStrategy": {"type": "OnDelete"},
        "resources": {"memory": "1Gi", "nvidia.com/bf_sf": "2"},
    }
    the_set = daemon_set(render(changed(serviceDaemonSet=set_by_it, hugepages=None)))
    pod = the_set["spec"]["template"]
    assert pod["metadata"]["labels"]["svc.dpu.nvidia.com/service"] == "ringleader"
    assert pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "mybrsfc"
    assert pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": terms}
    assert the_set["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert container(the_set)["resources"]["limits"] == {"cpu": "1", "memory": "1Gi", "nvidia.com/bf_sf": "2"}
    old = daemon_set(render(changed(serviceDaemonSet={"upgradeStrategy": {"type": "OnDelete"}})))
    assert old["spec"]["updateStrategy"] == {"type": "OnDelete"}

    refused(changed(health={"port": 9100}), "port")
    refused(changed(group=""), "group")
    refused(changed(configSecret={}), "configSecret")
    refused(changed(nodes={"dpu-1": 4}), "not among the members")
    refused(changed(nodes={}), "nodes")
    refused(changed(members={"16": "10.0.0.1:7400"}), "'16'")


def check_pod():
    [pod] = yaml.safe_load_all((HERE / "kubelet" / "ringleader-dpu.yaml").read_text())
    kubernetes_validate.validate(pod, VERSION, strict=True)
    [agent] = pod["spec"]["containers"]
    assert agent["image"] == f"ringleader-dpu:{CARGO}"
    assert pod["spec"]["hostNetwork"] is True
    for probe in (agent["livenessProbe"], agent["readinessProbe"]):
        assert probe["httpGet"]["host"] == "127.0.0.1" and probe["httpGet"]["port"] != 9100
    mounted = {mount["name"] for mount in agent["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]}


if __name__ == "__main__":
    check_chart()
    check_pod()
    print("chart: linted, rendered and valid; static pod: valid")
    sys.exit(0)
