"""Large scopes are searched through the index: with the bound made small, over random worlds, against the route that reads every chunk."""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest

from tests.functions.helpers import World, add, call, documents
from tests.functions.patched import few_searched, patched, scope_limit
from tests.support import Database

WORDS = {
    "en": ["refund", "refunds", "window", "the", "tent", "lease", "PAY-402", "v2.3.1", "snake_case", "of"], "de": ["Rückgabe", "Rückgaben", "Frist", "die", "Zelt", "PAY-402"],
    "zh": ["退款政策", "退款", "三十天", "政策", "租赁", "v2.3.1"], "xx": ["refund", "tent", "the", "zelt", "PAY-403"],
}
EVERY = [*sorted({word for words in WORDS.values() for word in words}), "nowhere", "anderswo", "没有"]
WORLDS, QUESTIONS = 3, 80


def sentence(dice: random.Random, language: str, n: int) -> str:
    return ("" if language == "zh" else " ").join(dice.choices(WORDS[language], k=dice.randint(2, 14))) + f" {n}. "


def random_world(database: Database, dice: random.Random, name: str) -> World:
    """Documents of four languages, one with chunks of two, replaced, hidden and deleted ones, with and without vectors and metadata."""
    world = World(database, name)
    for n in range(26):
        language = dice.choice(list(WORDS))
        source = dice.choice(["handbook", "wiki"])
        metadata = {"n": dice.choice([1, 1.0, 2, "1"]), "l": dice.sample(["a", "b", "c"], dice.randint(0, 2)), "t": dice.choice([True, False])}
        for revision in range(dice.choice([1, 1, 2])):
            texts = [sentence(dice, language, 100 * n + i) for i in range(dice.randint(1, 5))]
            vectors = [[dice.random() + 0.1, dice.random(), dice.random()] for _ in texts] if dice.random() < 0.8 else None
            world.put(f"{n}", texts, source=source, language=language, vectors=vectors, revision=f"r{revision}", readers=["bob"] if n % 5 == 4 else ["everyone"],
                      product=dice.choice(["tent", "stove", None]), tags=dice.sample(["x", "y"], dice.randint(0, 2)), dated=dice.choice(["2024-01-01", "2025-01-01", None]),
                      metadata=json.dumps(dice.choice([metadata, {}])), effective_from=dice.choice([None, "2001-01-01"]))  # fmt: skip
    with world.writer() as writer:
        call(writer, "stage_revision", "mixed", "Die Rückgabe von PAY-402. The refund of PAY-402. ", revision="v1")
        add(writer, "mixed", "v1", ["Die Rückgabe von PAY-402. ", "The refund of PAY-402. "], languages=["de", None])
        call(writer, "verify_revision", "mixed", "v1", 2)
        call(writer, "set_access", "mixed", ["everyone"])
        call(writer, "activate", "mixed", "v1")
        writer.execute("select pgrag.delete_document('0') from (select) as n where exists (select from pgrag.list_documents() where document = '0')")
    return world


def random_filter(dice: random.Random) -> dict[str, Any]:
    choices: dict[str, list[Any]] = {
        "source": ["handbook", ["handbook", "wiki"], "nowhere"], "language": ["de", ["en", "zh"], "fr"], "product": ["tent", ["tent", "stove"]], "tags": [["x"], ["x", "y"]],
        "date_from": ["2024-01-01", "2024-06-01"], "date_to": ["2024-06-01"], "version": ["1"],
        "metadata": [{"n": 1}, {"n": 1.0}, {"n": "1"}, {"l": ["a"]}, {"l": ["b", "a"]}, {"l": []}, {"t": True}, {"n": 2, "t": False}, {}],
    }  # fmt: skip
    return {key: dice.choice(choices[key]) for key in dice.sample(list(choices), dice.choice([0, 0, 1, 1, 2]))}


def random_question(dice: random.Random) -> tuple[str, str, dict[str, Any]]:
    words = dice.sample(EVERY, dice.randint(1, 6))
    if dice.random() < 0.3:
        words.append(f'"{" ".join(dice.sample(WORDS[dice.choice(list(WORDS))], dice.randint(1, 2)))}"')
    if dice.random() < 0.3:
        words.append(f"-{dice.choice(EVERY)}")
    mode = dice.choice(["lexical", "lexical", "hybrid"])
    request: dict[str, Any] = {"k": dice.choice([1, 5, 100]), "candidates": 100, "threshold": 0, "filter": random_filter(dice), "fusion": dice.choice(["convex", "rrf"])}
    if mode == "hybrid":
        request |= {"embedding": [dice.random() + 0.1, dice.random(), dice.random()], "space": "toy"}
    if dice.random() < 0.3:
        request["probes"] = [" ".join(dice.sample(EVERY, 2)) for _ in range(dice.randint(1, 4))]
        if mode == "hybrid" and dice.random() < 0.5:
            request["probe_embeddings"] = [[dice.random() + 0.1, dice.random(), dice.random()] for _ in request["probes"]]
    if dice.random() < 0.2:
        request["as_of"] = dice.choice(["2000-06-01", "2030-01-01"])
    if dice.random() < 0.2:
        request["per_document"] = 1
    if dice.random() < 0.1:
        request["profile"] = "retry"
    return " ".join(words), mode, request


@pytest.fixture(scope="module")
def worlds(module_database: Database) -> list[World]:
    worlds = [random_world(module_database, random.Random(seed), f"world-{seed}") for seed in range(WORLDS)]
    with module_database.superuser() as superuser:
        superuser.execute("analyze")
    return worlds


def both(world: World, connection: psycopg.Connection[Any], question: str, mode: str, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    strict, auto = (world.database.search(connection, question, mode, isolation=isolation, **request) for isolation in ("strict", "auto"))
    assert (strict["policy"].pop("isolation"), auto["policy"].pop("isolation")) == ("strict", "auto")
    assert strict["policy"].pop("lexical_route") == "scope"
    return strict, auto


@pytest.mark.contract("F1", "F9", "A4")
def test_both_routes_give_the_same_answer(worlds: list[World]) -> None:
    """The whole of it, each score to the last digit, as long as every word is searched for."""
    seen: Counter[str] = Counter()
    with scope_limit(worlds[0].database):
        for seed, world in enumerate(worlds):
            dice = random.Random(100 + seed)
            with world.reader() as reader:
                for _ in range(QUESTIONS):
                    question, mode, request = random_question(dice)
                    strict, auto = both(world, reader, question, mode, request)
                    seen[auto["policy"].pop("lexical_route")] += 1
                    assert auto == strict, (seed, question, mode, request)
                    seen.update(hits=bool(auto["hits"]), phrases="phrases" in auto["policy"], relaxed="relaxed" in auto["policy"], excluded="excluded" in auto["policy"],
                                probe=any(hit["probe"] for hit in auto["hits"]), hybrid=mode == "hybrid", filtered=bool(request["filter"] and auto["hits"]), as_of="as_of" in request)
    assert seen["index"] > 0.7 * WORLDS * QUESTIONS  # where the filter left nothing, there is no index to ask
    for kind in ("hits", "phrases", "relaxed", "excluded", "probe", "hybrid", "filtered", "as_of"):
        assert seen[kind] >= 10, seen


@pytest.mark.contract("F1", "A4")
@pytest.mark.parametrize("function, change", [
    ("visible_row", ("%.revision_id + 0 = any ((@).revisions)", "true")),  # the scope left out
    ("visible_row", ("= any ((@).acls)", "is not null")),
    ("lexical_lane", ("then count(*) filter (where tf% > 0) else", "then ($2).df[%] + 1 else")),  # frequencies that are not counted
    ("lexical_plans", ("v_plan.any_query || v_query end", "v_plan.any_query end")),  # the first word alone
    ("filtered_revisions", ("and r.metadata @> v_metadata", "and r.metadata @> v_metadata and r.metadata ? 't'")),
])  # fmt: skip
def test_both_routes_control(worlds: list[World], function: str, change: tuple[str, str]) -> None:
    """Control: the comparison notices each of these."""
    world, dice, differ = worlds[0], random.Random(100), False
    change = change if function != "filtered_revisions" else ("and (v_metadata is null or r.metadata @> v_metadata)", "and (v_metadata is null or r.metadata @> v_metadata and v_metadata = '{}')")
    with scope_limit(world.database), patched(world.database, function, change), world.reader() as reader:
        for _ in range(QUESTIONS):
            question, mode, request = random_question(dice)
            try:
                with reader.transaction():
                    strict, auto = both(world, reader, question, mode, request)
            except psycopg.Error:
                differ = True
            else:
                differ = strict["hits"] != auto["hits"]
            if differ:
                break
    assert differ


@pytest.mark.contract("F1", "A4", "A7")
def test_words_that_are_not_searched_are_said(worlds: list[World]) -> None:
    """The rarest words decide which chunks come, each scored as if all had been searched; nothing that is hidden comes."""
    bounded = short = 0
    with scope_limit(worlds[0].database), few_searched(worlds[0].database):
        for seed, world in enumerate(worlds):
            dice = random.Random(200 + seed)
            with world.reader() as reader:
                for _ in range(QUESTIONS):
                    language = dice.choice(["xx", "zh"])  # one language, one plan
                    question = " ".join(dice.sample(WORDS[language], dice.randint(2, 5))) + dice.choice(["", "", " -tent", " -退款政策"])
                    strict, auto = both(world, reader, question, "lexical", {"k": 100, "threshold": 0, "filter": {"language": language}})
                    bound = auto["policy"].pop("lexical_bound", None)
                    auto["policy"].pop("lexical_route")
                    if not bound:
                        assert auto == strict
                        continue
                    bounded += 1
                    left = set(bound["words_not_searched"])
                    full = {hit["chunk_id"]: {term["term"]: term["tf"] for term in hit["matched_terms"]} for hit in strict["hits"]}
                    df = Counter(term for terms in full.values() for term in terms)
                    for hit in auto["hits"]:
                        assert {term["term"]: term["tf"] for term in hit["matched_terms"]} == full[hit["chunk_id"]]
                        assert {term["term"] for term in hit["matched_terms"]} - left  # it has a word that was searched
                    assert (len(auto["hits"]) == len(full) or auto["complete_reason"] == "words_not_searched") and not (auto["complete_reason"] == "words_not_searched" and auto["complete"])
                    short += len(auto["hits"]) < len(full)
                    if "excluded" not in strict["policy"]:  # of an excluded chunk the words count too
                        assert max(df[term] for term in df if term not in left) <= min(df[term] for term in df if term in left)
    assert bounded >= 20 and short >= 10


@pytest.mark.contract("F1", "A4")
def test_the_rarest_words_decide(world: World) -> None:
    """Word n is in n chunks; with at most 12 expected, the first four words are searched for, and their chunks are scored by all."""
    with world.writer() as writer:
        for n in range(30):
            world.database.put_document(writer, f"{n:02}", " ".join(f"word{m}" for m in range(1, 11) if n % 10 < m and n < 3 * m) + f" own{n}", language="xx")
        world.database.put_document(writer, "hidden", "word1 word1 word2", language="xx", readers=["bob"])
    question = " ".join(f"word{m}" for m in range(1, 11))
    strict = world.search(question, k=100, threshold=0, isolation="strict")
    df = Counter(term["term"] for hit in strict["hits"] for term in hit["matched_terms"])
    with scope_limit(world.database), few_searched(world.database, 1, 12):
        auto = world.search(question, k=100, threshold=0)
    left = set(auto["policy"]["lexical_bound"]["words_not_searched"])
    searched = set(df) - left
    assert searched and left and max(df[word] for word in searched) <= min(df[word] for word in left)
    assert sum(df[word] for word in searched) <= 12
    expected = [hit for hit in strict["hits"] if searched & {term["term"] for term in hit["matched_terms"]}]
    assert [hit["chunk_id"] for hit in auto["hits"]] == [hit["chunk_id"] for hit in expected]
    assert [hit["lexical_score"] for hit in auto["hits"]] == [hit["lexical_score"] for hit in expected]  # the sample was all there is
    assert len(expected) < len(strict["hits"])  # control
    assert (auto["complete"], auto["complete_reason"]) == (False, "words_not_searched")
    assert "hidden" not in documents(auto)
    with scope_limit(world.database), few_searched(world.database, 1, 12), patched(world.database, "lexical_plans", ("order by s.df,", "order by s.df desc,")):
        assert world.search(question, k=100, threshold=0)["policy"]["lexical_bound"]["words_not_searched"] != sorted(left)  # control: the commonest first


@pytest.mark.contract("F1", "A4")
def test_a_quoted_phrase_of_common_words_is_found_wherever_it_is(world: World) -> None:
    """Where not all words are searched for, the index finds the phrase's own chunks instead, all of them."""
    with world.writer() as writer:
        for n in range(40):
            world.database.put_document(writer, f"{n:02}", f"{'common phrase' if n % 4 == 0 else 'phrase so common'} {'rare' if n == 1 else ''} own{n}", language="xx", vectors=[[1, n / 10, 0]])
        world.database.put_document(writer, "hidden", "common phrase", language="xx", readers=["bob"], vectors=[[1, 0, 0]])
    for question, names in (('"common phrase" rare', {f"{n:02}" for n in range(0, 40, 4)}), ('"common phrase" -own8', {f"{n:02}" for n in range(0, 40, 4)} - {"08"})):
        for mode, request in (("lexical", {}), ("hybrid", {"embedding": [1, 0, 0], "space": "toy"})):
            with scope_limit(world.database), few_searched(world.database, 1, 2):
                found = world.search(question, mode, k=100, threshold=0, **request)
            assert set(documents(found)) == names
            assert not {"relaxed", "lexical_bound"} & found["policy"].keys() and found["complete_reason"] == "all_matches_returned"
            strict = world.search(question, mode, k=100, threshold=0, isolation="strict", **request)
            assert [hit["document"] for hit in found["hits"]] == [hit["document"] for hit in strict["hits"]]


@pytest.mark.contract("A4", "A7")
def test_below_the_bound_and_in_strict_isolation_no_index_is_asked(worlds: list[World]) -> None:
    world = worlds[0]
    chunks = world.search("refund", threshold=0)["scope"]["chunks"]
    for limit, isolation, route in ((chunks, "auto", "scope"), (chunks - 1, "auto", "index"), (0, "strict", "scope"), (20000, "auto", "scope")):
        with scope_limit(world.database, limit) if limit != 20000 else nullcontext():
            assert world.search("refund", isolation=isolation)["policy"]["lexical_route"] == route


# -- Filters ------------------------------------------------------------------------------------------

VISIBLE = """
select p.name, f.filter::text,
       array(select v.revision_id from pgrag_private.visible_revisions(p.tenant_id, a.acls, null, f.filter, false) v order by 1),
       array(select v.revision_id from pgrag_private.visible_revisions(p.tenant_id, a.acls, null, f.filter, true) v order by 1)
  from pgrag_data.principal p join pgrag_data.tenant t using (tenant_id) cross join unnest(%s::jsonb[]) as f (filter)
 cross join lateral (select array(select pgrag_private.permitted_acls(p.tenant_id, p.principal_id))) as a (acls)
 where t.tenant = %s and p.name in ('alice', 'bob')
"""


@pytest.mark.contract("F5", "A4")
def test_filters_give_the_same_scope_on_both_routes(worlds: list[World]) -> None:
    dice = random.Random(5)
    filters = [json.dumps(random_filter(dice)) for _ in range(120)]
    with worlds[0].database.superuser() as superuser, scope_limit(worlds[0].database):
        for world in worlds:
            rows = superuser.execute(VISIBLE, (filters, world.tenant)).fetchall()
            assert [(name, filter_) for name, filter_, fenced, indexed in rows if fenced != indexed] == []
            sizes = Counter(min(len(fenced), 2) for _, _, fenced, _ in rows)
            assert sizes[0] and sizes[2] > 60 and len({tuple(fenced) for _, _, fenced, _ in rows}) > 20
            alice, bob = ({filter_: set(fenced) for name, filter_, fenced, _ in rows if name == who} for who in ("alice", "bob"))
            assert all(alice[filter_] <= bob[filter_] for filter_ in alice) and alice != bob  # bob may see all of these, and more
        for old, new in (("\n       and d.acl_id = any (p_acls)\n", "\n"), ("facet_keys_any(p_tenant_id, 'tag', v_tags))", "facet_keys_any(p_tenant_id, 'tags', v_tags))")):  # control
            with patched(worlds[0].database, "filtered_revisions", (old, new)):
                assert any(fenced != indexed for _, _, fenced, indexed in superuser.execute(VISIBLE, (filters, worlds[0].tenant)))


def made_beside(database: Database, tenant: str, hidden: bool) -> dict[str, Any]:
    """What alice is answered where frequencies are estimated; ``hidden``: after half of what she sees many documents were made that she does not."""
    dice, world = random.Random(1), World(database, tenant, space=None)
    for n in range(12):
        world.put(f"open-{n}", [sentence(dice, "en", n) for _ in range(dice.randint(1, 4))], readers=["alice"])
        for m in range(41 if hidden and n == 5 else 0):
            world.put(f"hidden-{m}", "Of something else. ", readers=["bob"])
    answer = world.search("refund tent lease window", k=50, threshold=0)
    return {"hits": [(hit["document"], hit["score"], hit["lexical_score"]) for hit in answer["hits"]], "bound": answer["policy"]["lexical_bound"]}


@pytest.mark.contract("A7")
def test_what_was_made_in_between_does_not_move_the_sample(database: Database) -> None:
    """Numbers of documents and revisions depend on it, and nothing may depend on them."""
    by_number = ("(hashint4(d.hash) & 2147483647)", "d.active_revision_id"), ("::integer as times", "::integer * 0 + 1 as times")
    for broken, same in ((nullcontext(), True), (patched(database, "estimate_df", *by_number), False)):
        with scope_limit(database), few_searched(database, 1, 6), broken:
            one, other = (made_beside(database, f"between-{same}-{hidden}", hidden) for hidden in (False, True))
        assert (one == other) is same
