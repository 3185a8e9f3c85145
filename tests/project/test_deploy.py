"""The compose files of the documentation: what they start, and whether the page says the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
PAGE = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
FILES = sorted(DEPLOY.glob("*.yml"))


def services(file):
    """Each service as compose would read it: anchors and merges are YAML's own."""
    return yaml.safe_load(file.read_text(encoding="utf-8"))["services"]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_servers_match_the_client_ask_for_a_key_and_stay_on_this_machine(file):
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    client = re.search(r"^qdrant-client==(\d+\.\d+)", pins, re.MULTILINE)[1]
    for service in services(file).values():
        assert service["image"].startswith(f"qdrant/qdrant:v{client}.")
        environment = service["environment"]
        assert environment["QDRANT__SERVICE__API_KEY"].startswith("${QDRANT_API_KEY:?")
        assert environment["QDRANT__TELEMETRY_DISABLED"] == "true"
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert service["healthcheck"]["test"]
        assert [volume.endswith(":/qdrant/storage") for volume in service["volumes"]] == [True]
    assert f"docs/deploy/{file.name} up" in PAGE


def test_three_nodes_are_one_cluster_and_each_has_its_own_port_and_volume():
    nodes = services(DEPLOY / "three-nodes.yml")
    assert list(nodes) == ["first", "second", "third"]
    commands = {name: node["command"] for name, node in nodes.items()}
    for name, command in commands.items():
        assert command[command.index("--uri") + 1] == f"http://{name}:6335"
        assert nodes[name]["environment"]["QDRANT__CLUSTER__ENABLED"] == "true"
        joins = command[command.index("--bootstrap") + 1] if "--bootstrap" in command else None
        assert joins == (None if name == "first" else "http://first:6335")
    ports = [port for node in nodes.values() for port in node["ports"]]
    hosts = [port.split(":")[1] for port in ports]
    assert len(set(hosts)) == len(hosts)
    assert len({volume for node in nodes.values() for volume in node["volumes"]}) == 3


def test_the_page_asks_where_the_first_node_answers():
    published = {port for node in services(FILES[0]).values() for port in node["ports"]}
    assert "127.0.0.1:6333:6333" in published
    assert set(re.findall(r"http://127\.0\.0\.1:(\d+)", PAGE)) == {"6333"}
