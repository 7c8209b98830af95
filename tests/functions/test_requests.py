"""What a question may be: every bound, refused by name on either side, and the same question accepted at it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.functions.helpers import World, one, refused
from tests.support import Database

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def shop(module_database: Database) -> World:
    world = World(module_database, "shop")
    world.put("refund.md", "Refunds are paid within thirty days.", vectors=[[1, 0, 0]])
    with module_database.role("operator") as operator:
        operator.execute("select pgrag.put_space('shop', 'twin', 'another-model', '1', 3)")  # not the active one
    World(module_database, "elsewhere")
    return world


@pytest.fixture(scope="module")
def session(shop: World) -> Iterator[psycopg.Connection[Any]]:
    with shop.reader() as connection:
        yield connection


@pytest.fixture
def reader(session: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """Alice's connection, shared by the tests, with what each does undone."""
    with session.transaction(force_rollback=True):
        yield session


def ask(connection: psycopg.Connection[Any], function: str, request: dict[str, Any]) -> Any:
    """The question in SQL (search, packet: named arguments) or in JSON (search_json, packet_json)."""
    request = {"question": "refunds", "mode": "lexical"} | request
    if function.endswith("_json"):
        return connection.execute(f"select pgrag.{function}(%s)", (json.dumps(request),)).fetchone()[0]
    if isinstance(request.get("filter"), (dict, list, str)):
        request["filter"] = json.dumps(request["filter"])
    if isinstance(request.get("embedding"), list):
        request["embedding"] = json.dumps(request["embedding"])
    casts = {"embedding": "::public.vector", "filter": "::jsonb", "probes": "::text[]", "order": "::text[]", "probe_embeddings": "::public.vector[]"}
    if request.get("probe_embeddings") is not None:
        request["probe_embeddings"] = [embedding and json.dumps(embedding) for embedding in request["probe_embeddings"]]
    named = ", ".join(f"p_{name} => %s{casts.get(name, '')}" for name in request)
    return connection.execute(f"select * from pgrag.{function}({named})", list(request.values())).fetchall()


SQL, JSON = ("search", "packet"), ("search_json", "packet_json")


@pytest.mark.contract("F6")
@pytest.mark.parametrize("k, code", [("0", "RG302"), ("-1", "RG302"), ("null", "RG302"), ("101", "RG302"), ("2147483647", "RG302"),
                                     ("1.5", "42883"), ("true", "42883"), ("2147483648", "42883"),  # no such function
                                     ("'1.5'", "22P02"), ("'two'", "22P02"),  # an untyped literal, read as an integer
                                     ("1", None), ("100", None), ("'2'", None)])
def test_k_in_sql(reader: psycopg.Connection[Any], k: str, code: str | None) -> None:
    """0, -1 and null are pgrag's to refuse; what is no integer, PostgreSQL refuses before pgrag sees it."""
    for function in SQL:
        with refused(reader, code):
            assert reader.execute(f"select pgrag.{function}('refunds', {k}, 'lexical')").fetchone()


@pytest.mark.contract("F6")
@pytest.mark.parametrize("k", ["0", "-1", "1.5", "1.0", "true", '"2"', "null", "101", "[2]", "{}", "99999999999", "1e9"])
def test_k_in_json(reader: psycopg.Connection[Any], k: str) -> None:
    for function in JSON:
        with refused(reader, "RG302"):
            reader.execute(f"select pgrag.{function}(%s)", (f'{{"question": "refunds", "mode": "lexical", "k": {k}}}',))
        for accepted in (1, 100):
            assert ask(reader, function, {"k": accepted})


HYBRID = {"mode": "hybrid", "embedding": [1, 0, 0], "space": "toy"}
BOUNDS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    # what is refused, how, and the nearest that is not
    ("empty question", {"question": ""}, "RG301", {"question": "r"}),
    ("white space", {"question": " \t\n\u00a0\u2003"}, "RG301", {"question": " \t\nr\u00a0"}),
    ("long question", {"question": "é" * 4001}, "RG301", {"question": "é" * 4000}),
    ("k above the ceiling", {"k": 101}, "RG302", {"k": 100}),
    ("candidates 0", {"candidates": 0}, "RG302", {"candidates": 100}),
    ("candidates below k", {"k": 5, "candidates": 4}, "RG302", {"k": 5, "candidates": 5}),
    ("candidates above the bound", {"candidates": 1001}, "RG302", {"candidates": 1000}),
    ("unknown mode", {"mode": "fuzzy"}, "RG303", {"mode": "lexical"}),
    ("mode in capitals", {"mode": "Lexical"}, "RG303", {"mode": "lexical"}),
    ("unknown fusion", {"fusion": "sum"}, "RG303", {"fusion": "rrf"}),
    ("threshold above 1", {"threshold": 1.000001}, "RG303", {"threshold": 1}),
    ("threshold below 0", {"threshold": -0.000001}, "RG303", {"threshold": 0}),
    ("as_of infinity", {"as_of": "infinity"}, "RG303", {"as_of": "9999-12-31"}),
    ("as_of before the year 1", {"as_of": "0044-03-15 BC"}, "RG303", {"as_of": "0044-03-15"}),  # what a packet's ISO 8601 cannot say
    ("as_of after the year 9999", {"as_of": "10000-01-01"}, "RG303", {"as_of": "9999-12-31T23:59:59Z"}),
    ("as_of -infinity", {"as_of": "-infinity"}, "RG303", {"as_of": "0001-01-01"}),
    ("no embedding", {"mode": "hybrid", "space": "toy"}, "RG305", HYBRID),
    ("no space", {"mode": "dense", "embedding": [1, 0, 0]}, "RG305", HYBRID | {"mode": "dense"}),
    ("an embedding too short to compare", HYBRID | {"embedding": [1e-30, 0, 0]}, "RG305", HYBRID | {"embedding": [1e-10, 0, 0]}),
    ("an embedding too long to compare", HYBRID | {"embedding": [1e30, 0, 0]}, "RG305", HYBRID | {"embedding": [1e10, 0, 0]}),
    ("fewer dimensions", HYBRID | {"embedding": [1, 0]}, "RG305", HYBRID),
    ("more dimensions", HYBRID | {"embedding": [1, 0, 0, 0]}, "RG305", HYBRID),
    ("a zero embedding", HYBRID | {"embedding": [0, 0, 0]}, "RG305", HYBRID | {"embedding": [0, 0, 0.001]}),
    ("another space of equal dimension", HYBRID | {"space": "twin"}, "RG305", HYBRID),
    ("a space that is not there", HYBRID | {"space": "nowhere"}, "RG305", HYBRID),
    ("filter list", {"filter": []}, "", {"filter": {}}),
    ("filter key", {"filter": {"tenant": "elsewhere"}}, "RG304", {"filter": {"source": "handbook"}}),
    ("filter key in capitals", {"filter": {"Source": "handbook"}}, "RG304", {"filter": {"source": "handbook"}}),
    ("filter number", {"filter": {"source": 1}}, "RG304", {"filter": {"source": "1"}}),
    ("filter null", {"filter": {"source": None}}, "RG304", {"filter": {}}),
    ("filter object", {"filter": {"source": {"a": "b"}}}, "RG304", {"filter": {"source": ["a", "b"]}}),
    ("filter of mixed types", {"filter": {"source": ["handbook", 1]}}, "RG304", {"filter": {"source": ["handbook", "1"]}}),
    ("filter nested", {"filter": {"source": [["handbook"]]}}, "RG304", {"filter": {"source": ["handbook"]}}),
    ("filter of nothing", {"filter": {"source": []}}, "RG304", {"filter": {"source": ["handbook"]}}),
    ("filter of 101", {"filter": {"source": ["a"] * 101}}, "RG304", {"filter": {"source": ["a"] * 100}}),
    ("tags as text", {"filter": {"tags": "refund"}}, "RG304", {"filter": {"tags": ["refund"]}}),
    ("filter too large", {"filter": {"source": "a" * 8192}}, "RG304", {"filter": {"source": "a" * 8100}}),
    ("date that is none", {"filter": {"date_from": "2023-02-29"}}, "RG304", {"filter": {"date_from": "2024-02-29"}}),
    ("date with a time", {"filter": {"date_to": "2024-01-01T00:00"}}, "RG304", {"filter": {"date_to": "2024-01-01"}}),
    ("date infinity", {"filter": {"date_to": "infinity"}}, "RG304", {"filter": {"date_to": "9999-12-31"}}),
    ("date as list", {"filter": {"date_to": ["2024-01-01"]}}, "RG304", {"filter": {"date_to": "2024-01-01"}}),
    ("metadata as text", {"filter": {"metadata": "billing"}}, "RG304", {"filter": {"metadata": {"team": "billing"}}}),
    ("metadata null", {"filter": {"metadata": {"team": None}}}, "RG304", {"filter": {"metadata": {}}}),
    ("metadata nested", {"filter": {"metadata": {"team": {"a": "b"}}}}, "RG304", {"filter": {"metadata": {"team": ["a", "b"]}}}),
    ("metadata list of numbers", {"filter": {"metadata": {"level": [1]}}}, "RG304", {"filter": {"metadata": {"level": 1}}}),
    ("a question of 1 MB", {"question": "word " * 200_000}, "RG301", {"question": "word " * 799}),
    ("a question of control characters", {"question": "\t\r\n\x0b\x0c"}, "RG301", {"question": "\x01\x1f refund \x7f\u200b"}),
    ("k of a million", {"k": 1_000_000}, "RG302", {"k": 100}),
    ("per_document 0", {"per_document": 0}, "RG302", {"per_document": 1}), ("per_document 101", {"per_document": 101}, "RG302", {"per_document": 100}),
    ("per_source 0", {"per_source": 0}, "RG302", {"per_source": 1}), ("per_source -1", {"per_source": -1}, "RG302", {"per_source": None}), ("per_source 101", {"per_source": 101}, "RG302", {"per_source": 100}),
    ("unknown isolation", {"isolation": "none"}, "RG303", {"isolation": "strict"}), ("isolation in capitals", {"isolation": "Strict"}, "RG303", {"isolation": "auto"}),
    ("unknown profile", {"profile": "wide"}, "RG303", {"profile": "retry"}),
    ("empty probe", {"probes": ["x", ""]}, "RG301", {"probes": ["x", "y"]}), ("blank probe", {"probes": [" \t\u00a0"]}, "RG301", {"probes": ["?"]}),
    ("long probe", {"probes": ["é" * 4001]}, "RG301", {"probes": ["é" * 4000]}), ("five probes", {"probes": ["x"] * 5}, "RG308", {"probes": ["x"] * 4}),
    ("a probe without its embedding", HYBRID | {"probes": ["x", "y"], "probe_embeddings": [[1, 0, 0]]}, "RG308", HYBRID | {"probes": ["x", "y"], "probe_embeddings": [[1, 0, 0], [0, 1, 0]]}),
    ("an embedding without its probe", HYBRID | {"probe_embeddings": [[1, 0, 0]]}, "RG308", HYBRID | {"probes": ["x"], "probe_embeddings": [[1, 0, 0]]}),
    ("an embedding too many", HYBRID | {"probes": ["x"], "probe_embeddings": [[1, 0, 0], [0, 1, 0]]}, "RG308", HYBRID | {"probes": ["x"], "probe_embeddings": None}),
    ("a dense probe without embedding", HYBRID | {"mode": "dense", "probes": ["x"]}, "RG308", HYBRID | {"mode": "dense", "probes": []}),
    ("a probe's embedding of another dimension", HYBRID | {"probes": ["x"], "probe_embeddings": [[1, 0]]}, "RG305", HYBRID | {"probes": ["x"], "probe_embeddings": [[1, 0, 1]]}),
    ("a probe's zero embedding", HYBRID | {"probes": ["x"], "probe_embeddings": [[0, 0, 0]]}, "RG305", HYBRID | {"probes": ["x"], "probe_embeddings": [[0, 0, 0.001]]}),
    ("a probe's embedding too long to compare", HYBRID | {"probes": ["x"], "probe_embeddings": [[1e30, 0, 0]]}, "RG305", HYBRID | {"probes": ["x"], "probe_embeddings": [[1e10, 0, 0]]}),
    ("an order without reranker", {"order": ["a"]}, "RG308", {"order": ["a"], "reranker": "x"}), ("a reranker without order", {"reranker": "x"}, "RG308", {"order": [], "reranker": "x"}),
    ("an order of 101", {"order": ["a"] * 101, "reranker": "x"}, "RG308", {"order": ["a"] * 100, "reranker": "x"}),
    ("a long name of a reranker", {"order": ["a"], "reranker": "x" * 201}, "RG308", {"order": ["a"], "reranker": "x" * 200}),
]


@pytest.mark.contract("F6", "E1", "F5")
@pytest.mark.parametrize("bad, code, good", [pytest.param(bad, code, good, id=name) for name, bad, code, good in BOUNDS])
def test_bounds(reader: psycopg.Connection[Any], bad: dict[str, Any], code: str, good: dict[str, Any]) -> None:
    for function in SQL + JSON:
        with refused(reader, code or ("RG307" if function in JSON else "RG304")):  # a filter that is no object
            ask(reader, function, bad)
        ask(reader, function, good)


@pytest.mark.contract("F6")
@pytest.mark.parametrize("argument, value, code", [
    ("question", "null", "RG301"), ("k", "null", "RG302"), ("candidates", "null", "RG302"), ("mode", "null", "RG303"), ("fusion", "null", "RG303"),
    ("threshold", "'NaN'", "RG303"), ("threshold", "'infinity'", "RG303"), ("filter", "'null'", "RG304"), ("filter", "'[1]'", "RG304"),
    ("space", "null", "RG305"), ("embedding", "null", "RG305"),
    ("embedding", "'[1,NaN,0]'", "22000"), ("embedding", "'[1,2'", "22P02"), ("embedding", "'[1e39,0,0]'", "22003"),  # vector's own
    ("threshold", "null", None), ("as_of", "null", None), ("filter", "null", None), ("token", "null", None),
    ("isolation", "null", "RG303"), ("profile", "null", "RG303"), ("per_document", "null", None), ("per_source", "null", None), ("probes", "null", None), ("order", "null", None),
    ("probes", "array['x', null]", "RG301"), ("probes", "array[['x'], ['y']]", "RG308"), ("probes", "array[['a', 'b'], ['c', 'd']]", "RG308"), ("probes", "'{}'", None),
    ("probe_embeddings", "array['[1,0,0]']::public.vector[], p_probes => array['x']", None), ("probe_embeddings", "array[array['[1,0,0]']]::public.vector[], p_probes => array['x']", "RG308"),
    ("probe_embeddings", "array[null]::public.vector[], p_probes => array['x']", "RG305"), ("probe_embeddings", "array['[NaN,0,0]']::public.vector[], p_probes => array['x']", "22000"),
    ("probe_embeddings", "array['[Infinity,0,0]']::public.vector[], p_probes => array['x']", "22000"), ("embedding", "'[Infinity,0,0]'", "22000"),
    ("order", "array['x', null], p_reranker => 'y'", "RG308"), ("order", "array[['a', 'b'], ['c', 'd']], p_reranker => 'y'", "RG308"), ("order", "array['x'], p_reranker => null", "RG308"), ("order", "'{}', p_reranker => 'y'", None),
])
def test_values_that_only_sql_can_hold(reader: psycopg.Connection[Any], argument: str, value: str, code: str | None) -> None:
    arguments = {"question": "'refunds'", "mode": "'dense'", "embedding": "'[1,0,0]'", "space": "'toy'"} | {argument: value}
    for function in SQL:
        with refused(reader, code):
            named = ", ".join(f"p_{name} => {text}" for name, text in arguments.items())
            assert reader.execute(f"select pgrag.{function}({named})").fetchone()


@pytest.mark.contract("F6")
@pytest.mark.parametrize("request_text, code", [
    ("null", "RG307"), ("[]", "RG307"), ('"refunds"', "RG307"), ("1", "RG307"), ("{}", "RG301"),
    ('{"question": null}', "RG307"), ('{"question": 5}', "RG307"), ('{"question": ["refunds"]}', "RG307"),
    ('{"question": "refunds", "mode": 1}', "RG307"), ('{"question": "refunds", "fusion": true}', "RG307"),
    ('{"question": "refunds", "space": ["toy"]}', "RG307"), ('{"question": "refunds", "filter": "source"}', "RG307"),
    ('{"question": "refunds", "threshold": "0.5"}', "RG307"), ('{"question": "refunds", "threshold": true}', "RG307"),
    ('{"question": "refunds", "candidates": 100.5}', "RG302"), ('{"question": "refunds", "candidates": "100"}', "RG302"),
    ('{"question": "refunds", "candidates": null}', "RG302"),
    ('{"question": "refunds", "as_of": 2024}', "RG307"), ('{"question": "refunds", "as_of": "soon"}', "RG303"), ('{"question": "refunds", "as_of": "2024-13-01"}', "RG303"),
    ('{"question": "refunds", "embedding": "[1,0,0]"}', "RG307"), ('{"question": "refunds", "embedding": [1, "0", 0]}', "RG307"),
    ('{"question": "refunds", "embedding": [1, true, 0]}', "RG307"), ('{"question": "refunds", "embedding": [1, null, 0]}', "RG307"),
    ('{"question": "refunds", "embedding": [[1, 0, 0]]}', "RG307"), ('{"question": "refunds", "embedding": [1e39, 0, 0]}', "RG307"),
    ('{"question": "refunds", "embedding": []}', "RG305"), (f'{{"question": "refunds", "embedding": {[1] * 4001}}}', "RG305"),
    ('{"question": "refunds", "per_document": 1.5}', "RG302"), ('{"question": "refunds", "per_document": "2"}', "RG302"), ('{"question": "refunds", "per_source": true}', "RG302"), ('{"question": "refunds", "mode": "lexical", "per_source": null}', None),
    ('{"question": "refunds", "isolation": true}', "RG307"), ('{"question": "refunds", "profile": ["retry"]}', "RG307"), ('{"question": "refunds", "reranker": 1}', "RG307"),
    ('{"question": "refunds", "mode": "lexical", "isolation": null, "profile": null, "probes": null, "probe_embeddings": null, "order": null, "reranker": null}', None),
    ('{"question": "refunds", "probes": "x"}', "RG307"), ('{"question": "refunds", "probes": [1]}', "RG307"), ('{"question": "refunds", "probes": [null]}', "RG307"), ('{"question": "refunds", "probes": [["x"]]}', "RG307"),
    ('{"question": "refunds", "order": "x", "reranker": "y"}', "RG307"), ('{"question": "refunds", "order": [null], "reranker": "y"}', "RG307"), ('{"question": "refunds", "order": {}, "reranker": "y"}', "RG307"),
    ('{"question": "refunds", "probes": ["x"], "probe_embeddings": [1, 0, 0]}', "RG307"), ('{"question": "refunds", "probes": ["x"], "probe_embeddings": ["[1,0,0]"]}', "RG307"), ('{"question": "refunds", "probes": ["x"], "probe_embeddings": [[1, "0", 0]]}', "RG307"),
    ('{"question": "refunds", "probes": ["x"], "probe_embeddings": [[1, null, 0]]}', "RG307"), ('{"question": "refunds", "probes": ["x"], "probe_embeddings": [[1e39, 0, 0]]}', "RG307"), ('{"question": "refunds", "probes": ["x"], "probe_embeddings": [[]]}', "RG307"),
    (f'{{"question": "refunds", "probes": ["x"], "probe_embeddings": [{[1] * 4001}]}}', "RG307"), ('{"question": "refunds", "probes": ["x"], "probe_embeddings": {}}', "RG307"),
    # unknown fields: a misspelling, somebody's identity, pages
    ('{"question": "refunds", "Question": "x"}', "RG307"), ('{"question": "refunds", "p_k": 3}', "RG307"),
    ('{"question": "refunds", "tenant": "elsewhere"}', "RG307"), ('{"question": "refunds", "reader": "bob"}', "RG307"), ('{"question": "refunds", "token": "x"}', "RG307"),
    ('{"question": "refunds", "offset": 10}', "RG307"), ('{"question": "refunds", "page": 2}', "RG307"), ('{"question": "refunds", "cursor": "x"}', "RG307"),
    # numbers that no float8 holds
    ('{"question": "refunds", "threshold": 1e400}', "RG303"), ('{"question": "refunds", "threshold": -1e400}', "RG303"), ('{"question": "refunds", "mode": "lexical", "threshold": 1e-400}', None),
    # what PostgreSQL's JSON refuses on its own, before pgrag is called
    ('{"question": "a\\u0000b"}', "22P05"), ('{"question": "a\\ud800b"}', "22P02"), ('{"question": "refunds"', "22P02"), ('{"question": NaN}', "22P02"),
])
def test_json_types(reader: psycopg.Connection[Any], request_text: str, code: str | None) -> None:
    for function in JSON:
        with refused(reader, code):
            reader.execute(f"select pgrag.{function}(%s)", (request_text,))
        assert ask(reader, function, {})


@pytest.mark.contract("F6", "G2")
@pytest.mark.parametrize("field, value, code", [
    ("budget", "0", "RG306"), ("budget", "-1", "RG306"), ("budget", "1000001", "RG306"), ("budget", "1.5", "RG306"), ("budget", '"500"', "RG306"), ("budget", "true", "RG306"), ("budget", "null", "RG306"),
    ("budget", "7", "RG306"),  # the question alone has seven characters
    ("budget_unit", '"words"', "RG306"), ("budget_unit", "1", "RG307"),
    ("reserve", "-1", "RG306"), ("reserve", "1.5", "RG306"), ("reserve", "null", "RG306"), ("reserve", "7993", "RG306"),
    ("strict", '"true"', "RG307"), ("strict", "1", "RG307"), ("strict", "null", "RG307"),
    ("budget", "1000000", None), ("budget", "8", None), ("budget_unit", '"bytes"', None), ("reserve", "7992", None), ("strict", "false", None),
])
def test_packet_bounds(reader: psycopg.Connection[Any], field: str, value: str, code: str | None) -> None:
    statement = "select pgrag.packet_json(%s)"
    arguments = (f'{{"question": "refunds", "mode": "lexical", "{field}": {value}}}',)
    with refused(reader, code):
        assert reader.execute(statement, arguments).fetchone()
    with refused(reader, "RG307"):  # a search has no budget
        reader.execute(statement.replace("packet", "search"), (f'{{"question": "refunds", "mode": "lexical", "{field}": 1}}',))


@pytest.mark.contract("F6", "G2")
@pytest.mark.parametrize("arguments, code", [
    ({"budget": None}, "RG306"), ({"budget_unit": None}, "RG306"), ({"reserve": None}, "RG306"), ({"strict": None}, "RG306"),
    ({"budget": 1, "budget_unit": "bytes", "reserve": 2147483647, "question": "😀" * 4000}, "RG306"),
    ({"budget": 1000}, None),
])
def test_packet_bounds_in_sql(reader: psycopg.Connection[Any], arguments: dict[str, Any], code: str | None) -> None:
    arguments = {"question": "refunds", "mode": "lexical"} | arguments
    with refused(reader, code):
        assert one(reader, "packet", **arguments)["status"] == "evidence"


@pytest.mark.contract("F6", "G3")
@pytest.mark.parametrize("question, reason", [
    ("the and of with", "stop_words_only"), ("WHAT is THIS?", "stop_words_only"), ('"the of"', "stop_words_only"), ("-refunds", "stop_words_only"), ("\x01\x02", "stop_words_only"), ("?!…", "stop_words_only"),
    ("the and of tents", "nothing_matches"), ("the and of refunds", None),
])
def test_stop_words_alone_say_so(shop: World, question: str, reason: str | None) -> None:
    found = shop.search(question)
    assert (found["reason"], found["status"]) == (reason, "abstain" if reason else "evidence")
    assert bool(found["hits"]) == (reason is None)
    assert shop.packet(question)["reason"] == reason


@pytest.mark.contract("F6")
def test_operators_in_a_question_are_words(shop: World) -> None:
    for question in ("refunds & !thirty", "refunds:*", 'refunds "', '"refunds', 'refunds "" -', "refunds -'x'", "refunds -:*", "'refunds' <-> 'x'", "re\\funds | refunds", "(refunds", "$1 %s ''; refunds"):
        assert shop.search(question, threshold=0)["hits"], question
    assert not shop.search("refu:*")["hits"]  # control: and a prefix is no word


@pytest.mark.contract("A1", "F6")
def test_nothing_that_reads_takes_a_principal_or_a_page(shop: World) -> None:
    with shop.database.superuser() as superuser:
        arguments = dict(superuser.execute("""
            select p.proname, array_agg(distinct argument) from pg_proc p cross join unnest(p.proargnames[1:p.pronargs]) as a (argument)
             where p.pronamespace = 'pgrag'::regnamespace and has_function_privilege('app_reader', p.oid, 'execute') group by 1""").fetchall())
    assert {"search", "search_json", "packet", "packet_json", "validate_reply", "excerpt", "can_read"} <= arguments.keys()
    forbidden = re.compile("tenant|reader|subject|principal|user|group|offset|page|cursor|after")
    assert [(name, argument) for name, names in arguments.items() for argument in names if forbidden.search(argument)] == []
    assert forbidden.search("p_tenant") and not forbidden.search("p_question")  # control


@pytest.mark.contract("A3")
def test_errors_and_their_table_agree() -> None:
    listed = re.findall(r"^\| *(RG\d{3}) *\|", (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"), re.MULTILINE)
    raised = {code for path in (ROOT / "sql").rglob("*.sql") for code in re.findall(r"\bRG\d{3}\b", path.read_text(encoding="utf-8"))}
    python = {code for path in (ROOT / "pgrag").rglob("*.py") for code in re.findall(r"\"(RG\d{3})\"", path.read_text(encoding="utf-8"))}
    assert len(listed) == len(set(listed))
    assert raised - set(listed) == set()
    assert set(listed) - raised - python == set()
    assert {"RG302", "RG501"} <= raised and "RG410" in python - raised  # control: both searches find something
