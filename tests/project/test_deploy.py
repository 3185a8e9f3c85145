"""The compose files of the documentation: what they start, and whether the page says the same."""

from __future__ import annotations

import re
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
PAGE = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
FILES = sorted(DEPLOY.glob("*.yml"))


@pytest.fixture
def answering(serving):
    """Ports at which each request is answered with one status, at one path alone."""

    def make(status):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status if self.path == "/readyz" else 404)
                self.end_headers()

            def log_message(self, *_):
                pass

        return serving(HTTPServer(("127.0.0.1", 0), Handler)).server_port

    return make


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
        assert service["healthcheck"]["test"][:3] == ["CMD", "bash", "-c"]
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


def test_the_files_are_projects_apart():
    """Without names they would be one, by their folder's: to start one would see the other's."""
    projects = {yaml.safe_load(file.read_text(encoding="utf-8"))["name"] for file in FILES}
    assert len(projects) == len(FILES)


def test_a_node_is_healthy_when_it_says_that_it_is_ready(answering):
    checks = {
        service["healthcheck"]["test"][3] for file in FILES for service in services(file).values()
    }
    [check] = checks
    for status, code in ((200, 0), (503, 1)):
        script = check.replace("6333", str(answering(status)))
        assert subprocess.run(["bash", "-c", script], timeout=10).returncode == code


def test_the_page_asks_where_the_first_node_answers():
    published = {port for node in services(FILES[0]).values() for port in node["ports"]}
    assert "127.0.0.1:6333:6333" in published
    assert set(re.findall(r"http://127\.0\.0\.1:(\d+)", PAGE)) == {"6333"}
