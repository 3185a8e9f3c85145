"""Search and FAQ lookup as tools, driven by the official client over stdio."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from sbert_retriever import BiEncoder, Retriever

ROOT = Path(__file__).parents[2]


def parameters(location: Path, *options: str) -> StdioServerParameters:
    path = os.pathsep.join([str(ROOT), str(ROOT / "integrations")])
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "sbert_retriever", "mcp", str(location), *options],
        env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
    )


def content(result) -> dict:
    assert not result.is_error, result.content
    return json.loads(result.content[0].text)


def python(code: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, which knows the modules that this one knows."""
    path = os.pathsep.join(filter(None, [str(ROOT), *sys.path]))
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


async def test_an_assistant_searches_and_looks_up(location: Path, minilm: BiEncoder) -> None:
    """What the FAQ could not answer is kept where that is asked for, as by the service."""
    log = location.parent / "asked.jsonl"
    with Retriever.open(location, model=minilm) as retriever:
        expected = [hit.id for hit in retriever.search("merge two dictionaries", 3)]
    options = ("--log-unanswered", "--log", str(log))
    async with Client(stdio_client(parameters(location, *options))) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"search", "faq_lookup"}
        assert all(tool.description and tool.annotations.read_only_hint for tool in tools.values())
        assert tools["search"].input_schema["required"] == ["query"]
        found = content(
            await client.call_tool("search", {"query": "merge two dictionaries", "k": 3})
        )
        assert [hit["id"] for hit in found["hits"]] == expected
        some = {"query": "merge", "filter": {"year": 2019}}
        assert [h["id"] for h in content(await client.call_tool("search", some))["hits"]] == [
            "lists"
        ]
        answer = content(await client.call_tool("faq_lookup", {"question": "When are you open?"}))
        assert (answer["outcome"], answer["entry"]["id"]) == ("answer", "hours")
        unknown = content(await client.call_tool("faq_lookup", {"question": "who is the pope?"}))
        assert (unknown["outcome"], unknown["answer"]) == ("abstain", None)
        wrong = {"query": "merge", "filter": {"year": {"near": 1}}}
        refused = await client.call_tool("search", wrong)
        assert refused.is_error
        assert "near" in refused.content[0].text
        for k in (0, 51, "many"):
            assert (await client.call_tool("search", {"query": "a", "k": k})).is_error
    kept = [json.loads(line)["question"] for line in log.read_text().splitlines()]
    assert kept == ["who is the pope?"]


def test_tools_need_the_extra_mcp_alone() -> None:
    """Installed without the extra for HTTP, the command ended with a missing fastapi."""
    run = python("import sys; sys.modules['fastapi'] = None; import sbert_retriever.serve.tools")
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("module", ["mcp.server.mcpserver", "mcp"])
def test_tools_without_the_extra_name_it(module: str, tmp_path: Path) -> None:
    """With the first version of mcp installed, as many programs bring it, it was our fault."""
    run = python(
        f"import sys; sys.modules[{module!r}] = None; from sbert_retriever.cli import main; "
        f"sys.exit(main(['mcp', {str(tmp_path)!r}]))"
    )
    assert run.returncode == 1
    assert "mcp 2 is needed to offer tools over stdio and is not installed" in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.full
async def test_only_what_is_there_is_offered(location: Path) -> None:
    async with Client(stdio_client(parameters(location, "--faq", "none"))) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search"]
