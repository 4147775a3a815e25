"""What an assistant gets to know of a deployment, by the protocol's own client."""

import asyncio
import sys

import orjson
import pytest
from resonance.pipeline import mcp_server
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.kafka.producer import Outlet
from resonance.pipeline.page.follower import FOLLOWED, SAMPLED, Follower

from tests.pipeline.commands import run
from tests.pipeline.page import outputs
from tests.pipeline.peers.test_peers import STEADY, fleet
from tests.pipeline.verify.test_verify_alerts import serve

TOOLS = ["incidents", "incident", "streams", "inspect", "peers", "examples"]


def known(deployment):
    """A follower that has read the outputs of a deployment in memory."""
    follower = Follower(deployment.given, {"bootstrap.servers": "127.0.0.1:1"}, print)
    for kind, entries in FOLLOWED.items():
        for record in deployment.logs.get((deployment.given.topic(kind), 0), ()):
            if kind == "clusters":
                follower.view.apply_cluster(record.key, record.value)
            elif (entry := follower.view.read_output(entries, record, peers=False)) is not None:
                follower.view.add(entry)
    follower.loaded = 1.0
    return follower


def ask(made, *questions):
    """The text of each answer, and whether it is an error."""
    # Not above: all processes of a run would import it, each in two seconds.
    from mcp.client import Client

    async def go():
        async with Client(made) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
            for name, given in questions:
                answer = await client.call_tool(name, given)
                found.append((answer.content[0].text, answer.is_error))

    found = []
    asyncio.run(go())
    return found


def test_each_tool_answers_with_the_documents_of_the_commands_and_nothing_is_written(monkeypatch, capsys):
    deployment = fleet(monkeypatch, records=700, begin=500, input__id_path="id", prepare__warmup_records=200, **STEADY)
    deployment.work(12 * 700, everything=True)
    before = ({at: len(log) for at, log in deployment.logs.items()}, dict(deployment.offsets))
    monkeypatch.setattr(Outlet, "__init__", lambda *_, **__: pytest.fail("it writes"))
    made = mcp_server.server(known(deployment), lambda: deployment.given)
    answers = [
        orjson.loads(text)
        for text, is_error in ask(
            made,
            ("incidents", {}),
            ("streams", {"search": "dev1", "most": 2}),
            ("inspect", {"name": "p0:dev3"}),
            ("peers", {}),
        )
        if not is_error
    ]
    happened, streams, stream, unlike = answers
    serve(deployment, monkeypatch)
    assert run(monkeypatch, "alerts", "--json") == 0
    assert happened == {"incidents": orjson.loads(capsys.readouterr().out)["incidents"], "left_out": 0}
    assert run(monkeypatch, "inspect", "--peers", "--json") == 0
    assert unlike == orjson.loads(capsys.readouterr().out)
    assert (streams["found"], [each["stream"] for each in streams["rows"]]) == (3, ["p0:dev1", "p0:dev10"])
    (incident,) = (each for each in happened["incidents"] if "p0:dev3" in each["streams"])
    cluster = stream["table"][0]["id"]
    evidence, described, examples = (
        orjson.loads(text)
        for text, _ in ask(
            made,
            ("incident", {"key": incident["key"]}),
            ("inspect", {"name": cluster}),
            ("examples", {"cluster": cluster}),
        )
    )
    assert evidence["key"] == incident["key"]
    assert {"lineage", "profile", "names", "examples"} <= set(described)
    assert [each["value"]["id"] for each in examples["records"]] == [each["id"] for each in described["examples"]]
    assert before == ({at: len(log) for at, log in deployment.logs.items()}, dict(deployment.offsets))


def test_what_is_not_there_is_an_error_with_the_sentence_of_the_page(monkeypatch):
    deployment = fleet(monkeypatch, records=60)
    deployment.work(12 * 60, everything=True)
    follower = known(deployment)
    made = mcp_server.server(follower, lambda: deployment.given)
    names = {"inspect": "name", "incidents": "stream", "examples": "cluster", "incident": "key"}
    for (text, is_error), tool in zip(
        ask(made, *((tool, {given: "p0:dev33/1/0"}) for tool, given in names.items())), names, strict=True
    ):
        what = {"incident": "incident", "incidents": "stream"}.get(tool, "cluster")
        assert is_error
        assert f"{tool}: there is no {what} p0:dev33/1/0" in text
    follower.loaded, follower.troubles = 0.4, {"outputs": "no broker answers"}
    assert ask(made, ("streams", {}))[0] == (
        "Error executing tool streams: the outputs of resonance are not read yet: no broker answers",
        True,
    )


def test_an_answer_is_bounded_and_says_what_it_leaves_out():
    long = {"all": list(range(60)), "one": {"text": "x" * 1_200}, "few": [1]}
    found = mcp_server.bounded(long)
    assert (len(found["all"]), len(found["one"]["text"]), found["few"]) == (50, 1_000, [1])
    assert found["shortened"] == {"all": 10, "one.text": 200}


def test_without_its_library_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(ConfigurationError, match=r"needs mcp.server, which is not .*'resonance-streams\[mcp\]'"):
        mcp_server.server(None, None)


def test_the_command_serves_what_is_on_the_topics_by_standard_input_and_output(tmp_path):
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    kinds = [kind.replace("_", "-") for kind in (*FOLLOWED, *SAMPLED)]

    async def go(bootstrap):
        command = ["-m", "resonance.pipeline.cli.main", "mcp", "--name", "shop", "--broker", bootstrap]
        with (tmp_path / "log").open("w") as log:
            program = stdio_client(StdioServerParameters(command=sys.executable, args=command), errlog=log)
            async with Client(program) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
                return (await client.call_tool("incidents", {"stream": "p0"})).content[0].text

    with EmbeddedBroker(f"shop.{kind}" for kind in kinds) as broker:
        broker.append("shop.clusters", 0, outputs.cluster("p0/1/0")[1], b"p0/1/0")
        broker.append("shop.alerts", 0, orjson.dumps(outputs.alert("opened", "p0")), b"k")
        broker.flush()
        (found,) = orjson.loads(asyncio.run(go(broker.bootstrap)))["incidents"]
    assert found["alerts"] == ["orders/unlike/p0/1/0"]
    assert (tmp_path / "log").read_text().startswith("shop: tools for an assistant on standard input and output")
