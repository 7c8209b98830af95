"""Retrieval: what each lane finds and scores, how they are fused, and that filters only narrow."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import numpy as np
import pytest

from tests.functions.helpers import World, add, call, documents, refused
from tests.support import Database

DENSE = {"embedding": [1, 0.5, 0.25], "space": "toy"}


@pytest.fixture(scope="module")
def corpus(module_database: Database) -> World:
    """Forty passages of a small vocabulary with random vectors: plenty of matches, none alike."""
    world = World(module_database, "corpus")
    rng = random.Random(7)
    words = ["refund", "window", "days", "return", "item", "shipping", "invoice", "customer", "order", "delay"]
    with world.writer() as writer:
        for n in range(40):
            text = " ".join(rng.choices(words, k=rng.randint(4, 30))) + f" number{n}"
            vectors = [[rng.uniform(-1, 1) for _ in range(3)]] if n % 4 else None  # every fourth has no vector
            module_database.put_document(writer, f"{n:02}.md", text, vectors=vectors)
    return world


def by_document(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {hit["document"]: hit for hit in found["hits"]}


# -- Fusion -------------------------------------------------------------------------------------------


@pytest.mark.contract("F3", "F4")
@pytest.mark.parametrize("fusion", ["convex", "rrf"])
def test_fusion_recomputed_from_the_lanes(corpus: World, fusion: str) -> None:
    question = "refund window days"
    with corpus.reader() as reader:
        lexical = by_document(corpus.database.search(reader, question, "lexical", k=100))
        dense = by_document(corpus.database.search(reader, question, "dense", k=100, **DENSE))
        found = corpus.database.search(reader, question, "hybrid", k=100, fusion=fusion, **DENSE)
    hits = by_document(found)
    assert set(hits) == set(lexical) | set(dense) and set(lexical) - set(dense) and set(dense) - set(lexical)
    share = {name: hit["score"] for name, hit in lexical.items()}  # in lexical mode the score is the share of the most
    judged = [(share[name], dense[name]["dense_score"]) for name in share if name in dense]
    agreement = ((len(judged) - 3) * float(np.corrcoef(*zip(*judged, strict=True))[0, 1]) + 10 * 0.2) / (len(judged) - 3 + 10) / 0.2
    holders = {term: sum(term in {t["term"] for t in hit["matched_terms"]} for hit in lexical.values()) for term in ("refund", "window", "day")}
    rarity = {term: math.log(1 + (140 - (df + 1) + 0.5) / (df + 1 + 0.5)) for term, df in holders.items()}

    def coverage(hit: dict[str, Any]) -> float:
        return sum(rarity[term["term"]] for term in hit["matched_terms"]) / sum(rarity.values())

    trust = 1 - min(max(share.values()) / 0.3, 1) * (1 - min(max(agreement, 0), 1))

    for document, hit in hits.items():
        bm25, cosine = lexical.get(document), dense.get(document)
        assert hit["lexical_rank"] == (bm25 and bm25["rank"]) and hit["dense_rank"] == (cosine and cosine["dense_rank"])
        assert hit["lexical_score"] == (bm25 and bm25["score"] and bm25["lexical_score"])
        assert hit["dense_score"] == (cosine and cosine["dense_score"])
        convex = (share.get(document, 0) / max(0.3, *share.values()) + trust * max(0, cosine["dense_score"] if cosine else 0)) / 2
        rrf = sum(weight / (60 + lane[rank]) for lane, rank, weight in ((bm25, "rank", 0.7), (cosine, "dense_rank", 0.3)) if lane)
        assert hit["relevance"] == pytest.approx((coverage(hit) * max(0, cosine["dense_score"] if cosine else bm25["relevance"])) ** 0.5, abs=2e-6)
        assert hit["score"] == pytest.approx({"convex": convex, "rrf": rrf}[fusion], abs=2e-6)
    scores = [hit["score"] for hit in found["hits"]]
    assert scores == sorted(scores, reverse=True)
    assert [hit["rank"] for hit in found["hits"]] == list(range(1, len(hits) + 1))
    # Control: the two fusions are two orders, and raw scores (BM25 above 1) were not added.
    other = corpus.search(question, "hybrid", k=100, fusion={"convex": "rrf", "rrf": "convex"}[fusion], **DENSE)
    assert documents(found) != documents(other)
    assert max(hit["lexical_score"] for hit in lexical.values()) > 1 >= max(hit["relevance"] for hit in hits.values())
    assert found["policy"].get("rrf_constant") == (60 if fusion == "rrf" else None)
    assert (found["policy"]["lexical_weight"], found["policy"]["dense_weight"]) == ((0.7, 0.3) if fusion == "rrf" else (0.5, pytest.approx(0.5 * trust, abs=2e-6)))


@pytest.mark.contract("F3")
def test_each_lane_has_its_budget(corpus: World) -> None:
    """With two candidates a lane, only the best two of each lane are fused, and each is scored by both lanes."""
    question = "refund window days"
    lexical = documents(corpus.search(question, "lexical", k=100))
    ranks = {hit["dense_rank"]: hit["document"] for hit in corpus.search(question, "dense", k=100, **DENSE)["hits"]}
    dense = [ranks[n + 1] for n in range(len(ranks))]
    for bound in (2, 5):
        found = corpus.search(question, "hybrid", k=2, candidates=bound, **DENSE)
        wide = by_document(corpus.search(question, "hybrid", k=100, **DENSE))
        assert set(documents(found)) <= set(lexical[:bound]) | set(dense[:bound])
        for hit in found["hits"]:
            rank = {lane: order.index(hit["document"]) + 1 if hit["document"] in order else None for lane, order in (("lexical", lexical), ("dense", dense))}
            assert all(hit[f"{lane}_rank"] == (place if place and place <= bound else None) for lane, place in rank.items())
            for field in ("relevance", "lexical_score", "dense_score"):
                assert hit[field] == wide[hit["document"]][field]  # the narrower budget took candidates, not scores
        assert found["policy"]["candidates"] == bound


@pytest.mark.contract("F3", "F9")
@pytest.mark.parametrize("mode, fusion", [("lexical", "convex"), ("dense", "convex"), ("hybrid", "convex"), ("hybrid", "rrf")])
def test_ties_are_broken_by_chunk_id(world: World, mode: str, fusion: str) -> None:
    with world.writer() as writer:
        for n in range(12):
            world.database.put_document(writer, f"{n}.md", "Refunds take thirty days.", vectors=[[1, 0.5, 0]])
    request = {"fusion": fusion} | (DENSE if mode != "lexical" else {})
    found = world.search("refund days", mode, k=12, **request)
    ids = [hit["chunk_id"] for hit in found["hits"]]
    assert ids == sorted(ids) and len(set(ids)) == 12
    if fusion == "convex":
        assert len({hit["score"] for hit in found["hits"]}) == 1
    else:  # reciprocal ranks have no ties here: the lanes broke them, by chunk id too
        assert [hit["lexical_rank"] for hit in found["hits"]] == [hit["dense_rank"] for hit in found["hits"]] == list(range(1, 13))
    assert documents(found) != sorted(documents(found))  # control: not the order of writing
    assert [hit["chunk_id"] for hit in world.search("refund days", mode, k=5, candidates=5, **request)["hits"]] == ids[:5]


@pytest.mark.contract("F9")
@pytest.mark.parametrize("mode", ["lexical", "dense", "hybrid"])
def test_the_same_bytes_twice(corpus: World, mode: str) -> None:
    request = {"question": "refund window days", "mode": mode} | (DENSE if mode != "lexical" else {})

    def ask(setting: str = "", k: int = 40) -> str:
        with corpus.reader() as reader:
            if setting:
                reader.execute(f"set local {setting}")
            answer: str = reader.execute("select pgrag.search_json(%s)::text", (json.dumps(request | {"k": k}),)).fetchone()[0]
            return answer

    first = ask()
    for setting in ("enable_hashjoin = off", "enable_nestloop = off", "work_mem = '64kB'", "TimeZone = 'Asia/Tokyo'", "extra_float_digits = -10", "jit = off", "geqo_threshold = 2; set local cpu_index_tuple_cost = 1.7e308"):
        assert ask(setting) == first, setting
    assert len(first) > 1000 and ask(k=39) != first  # control


@pytest.mark.contract("F4")
def test_what_a_hit_carries(world: World) -> None:
    """Every field against what was written, in rows and in JSON."""
    body = ["# Refunds\n", "Thirty days — 😀 — from delivery.\n"]
    with world.role("operator") as operator:
        operator.execute("select pgrag.put_source(%s, 'wiki', p_trust => 'untrusted')", (world.tenant,))
    with world.writer("wiki") as writer:
        call(writer, "stage_revision", "notes/refund.md", "".join(body), "Refunds", "en", "v1", effective_from="2024-01-01T00:00:00Z", effective_to="2999-01-01T00:00:00Z",
             tokenizer="words-1", space="toy")
        add(writer, "notes/refund.md", "v1", body, vectors=[[1, 0, 0], [0, 1, 0]], sections=["", "Refunds > Days"], pages=[None, 3], languages=[None, "de"])
        call(writer, "verify_revision", "notes/refund.md", "v1", 2)
        call(writer, "set_access", "notes/refund.md", ["alice"])
        call(writer, "activate", "notes/refund.md", "v1")
    request = {"embedding": [0, 1, 0], "space": "toy"}
    hit = world.search("delivery thirty", "hybrid", **request)["hits"][0]
    expected = {
        "source": "wiki", "document": "notes/refund.md", "revision": "v1", "active": True, "title": "Refunds", "section": "Refunds > Days", "page": 3,
        "language": "de", "span_start": 10, "span_end": 10 + len(body[1]), "span_unit": "code points", "text": body[1], "tokens": 1, "tokenizer": "words-1",
        "trust": "untrusted", "effective_from": "2024-01-01T00:00:00.000000Z", "effective_to": "2999-01-01T00:00:00.000000Z",
        "rank": 1, "lexical_rank": 1, "dense_rank": 1, "dense_score": 1, "probe": None, "duplicates": [],
    }
    assert {key: hit[key] for key in expected} == expected
    assert hit.keys() - expected.keys() == {"chunk_id", "ingested_at", "score", "relevance", "lexical_score", "matched_terms"}
    assert [term["term"] for term in hit["matched_terms"]] == ["delivery", "thirty"] and all(term["tf"] == 1 for term in hit["matched_terms"])
    assert sum(term["score"] for term in hit["matched_terms"]) == pytest.approx(hit["lexical_score"], abs=2e-6)
    assert "".join(body)[hit["span_start"]:hit["span_end"]] == hit["text"]
    with world.reader() as reader:
        rows = call(reader, "search", "delivery thirty", embedding="[0,1,0]", space="toy")
        columns = [column.name for column in reader.execute("select * from pgrag.search('x', p_mode => 'lexical')").description]
    row = dict(zip(columns, rows[0], strict=True))
    for key in columns:
        if key in hit and not key.endswith(("_from", "_to", "_at")):
            assert row[key] == pytest.approx(hit[key]) if isinstance(hit[key], float) else row[key] == hit[key], key
    assert (row["effective_from"].isoformat(), row["effective_to"].year) == ("2024-01-01T00:00:00+00:00", 2999)
    assert (row["status"], row["complete"]) == ("evidence", True)


@pytest.mark.contract("A4", "F4", "F6")
def test_complete_and_the_ceiling_on_k(world: World) -> None:
    with world.writer() as writer:
        world.database.put_document(writer, "long.md", [f"Refund rule {n}. " for n in range(130)], vectors=[[1, n / 100, 0] for n in range(130)])
        world.database.put_document(writer, "hidden.md", [f"Refund refund {n}. " for n in range(50)], readers=["bob"])
    for mode in ("lexical", "dense", "hybrid"):
        request = DENSE if mode != "lexical" else {}
        for k, filter_, count, reason in ((100, {}, 100, "k_returned"), (1, {}, 1, "k_returned"), (10, {"source": "wiki"}, 0, "all_matches_returned")):
            found = world.search("refund", mode, k=k, filter=filter_, **request)
            assert (len(found["hits"]), found["complete"], found["complete_reason"]) == (count, True, reason)
            assert set(documents(found)) <= {"long.md"}  # hidden rows, which match better, used up no place
    found = world.search("rule 77", k=100)
    assert found["scope"] == {"documents": 1, "chunks": 130}
    assert world.search("rule 77", k=100, reader="bob")["scope"]["chunks"] == 180  # control: bob sees both
    few = world.search("77", k=5)
    assert (len(few["hits"]), few["complete_reason"]) == (1, "all_matches_returned")
    with world.reader() as reader, refused(reader, "RG302"):
        world.database.search(reader, "refund", k=101)


# -- The dense lane -----------------------------------------------------------------------------------


@pytest.mark.contract("F2")
def test_dense_is_exact(database: Database) -> None:
    """Every cosine and the whole order, against numpy, with hidden neighbours that are nearer."""
    world = World(database, "numbers", space=("eight", 8))
    rng = np.random.default_rng(11)
    vectors = rng.normal(size=(300, 8)).astype(np.float32)
    question = rng.normal(size=8).astype(np.float32)
    with world.writer() as writer:
        for n in range(0, 300, 50):
            database.put_document(writer, f"{n}.md", [f"passage {i}\n" for i in range(n, n + 50)], vectors=vectors[n : n + 50].tolist(), space="eight")
        database.put_document(writer, "hidden.md", [f"hidden {i}\n" for i in range(50)], vectors=[question.tolist()] * 50, space="eight", readers=["bob"])
    cosines = (vectors.astype(float) @ question.astype(float)) / np.linalg.norm(vectors.astype(float), axis=1) / np.linalg.norm(question.astype(float))
    order = np.argsort(-cosines)
    request = {"embedding": question.tolist(), "space": "eight"}
    for k in (1, 10, 100):
        found = world.search("anything at all", "dense", k=k, **request)
        assert [int(hit["text"].split()[1]) for hit in found["hits"]] == order[:k].tolist()
        assert [hit["dense_score"] for hit in found["hits"]] == pytest.approx(cosines[order[:k]].tolist(), abs=2e-6)
        assert [hit["relevance"] for hit in found["hits"]] == [hit["score"] for hit in found["hits"]]
        assert {hit["lexical_rank"] for hit in found["hits"]} == {None}
        assert found["policy"]["dense_route"] == "exact"
    assert documents(world.search("anything", "dense", k=1, reader="bob", **request)) == ["hidden.md"]  # control
    away = world.search("anything", "dense", k=100, embedding=(-question).tolist(), space="eight")["hits"]
    assert away[0]["dense_score"] == pytest.approx(-cosines.min(), abs=2e-6)  # control: the other way round


@pytest.mark.contract("F2", "F3")
def test_dense_orders_what_points_away(world: World) -> None:
    """Below zero the relevance is none, and the order is still that of the cosine."""
    vectors = {f"{n}.md": [-1, n / 10, 0] for n in (3, 1, 4, 0, 2)}
    for document, vector in vectors.items():
        world.put(document, "Refunds.", vectors=[vector])
    found = world.search("anything", "dense", embedding=[1, 0, 0], space="toy")
    assert documents(found) == ["4.md", "3.md", "2.md", "1.md", "0.md"]
    assert [hit["dense_rank"] for hit in found["hits"]] == [hit["rank"] for hit in found["hits"]] == [1, 2, 3, 4, 5]
    assert {hit["relevance"] for hit in found["hits"]} == {0} and found["status"] == "abstain"
    assert documents(world.search("anything", "dense", embedding=[-1, 0, 0], space="toy")) == ["0.md", "1.md", "2.md", "3.md", "4.md"]  # control


@pytest.mark.contract("E3", "F2")
def test_zero_vectors_where_the_space_skips_them(database: Database) -> None:
    world = World(database, "zeros", space=None)
    with database.role("operator") as operator:
        call(operator, "put_space", "zeros", "toy", "toy-model", "1", 3, normalisation="none", zero_vectors="skip")
    world.put("known.md", "Refunds take thirty days.", vectors=[[1, 0, 0]])
    world.put("unknown.md", "Refunds take thirty days, qxzy.", vectors=[[0, 0, 0]])
    request = {"embedding": [1, 0, 0], "space": "toy"}
    assert documents(world.search("qxzy", "dense", **request)) == ["known.md"]  # a zero is near to nothing
    hit = by_document(world.search("qxzy refunds", "hybrid", **request))["unknown.md"]  # but its words are found
    assert (hit["dense_rank"], hit["dense_score"], hit["lexical_rank"]) == (None, None, 1)
    with world.reader() as reader, refused(reader, "RG305", "zero"):
        database.search(reader, "qxzy", "dense", embedding=[0, 0, 0], space="toy")


@pytest.mark.contract("E1")
def test_a_tenant_without_a_space_is_lexical_only(database: Database) -> None:
    world = World(database, "wordy", space=None)
    world.put("refund.md", "Refunds take thirty days.")
    with world.reader() as reader:
        assert call(reader, "active_space") == []
        assert documents(database.search(reader, "refunds")) == ["refund.md"]
        for mode in ("dense", "hybrid"):
            with refused(reader, "RG305"):
                database.search(reader, "refunds", mode, **DENSE)
    with database.role("operator") as operator:
        call(operator, "put_space", "wordy", "toy", "toy-model", "1", 3)
    with world.reader() as reader:  # control: with one, the same question is accepted
        assert documents(database.search(reader, "refunds", "hybrid", **DENSE)) == ["refund.md"]


@pytest.mark.contract("F2", "F6")
@pytest.mark.parametrize("size", [1e-30, 1e-10, 1.0, 1e10, 1e20, 3e38])
def test_the_length_of_a_question_vector_does_not_matter(corpus: World, size: float) -> None:
    """Cosine has no length: the same direction has the same answer, or is refused; never silently none."""
    expected = corpus.search("anything", "dense", k=5, **DENSE)["hits"]
    embedding = (np.array(DENSE["embedding"]) * size).tolist()
    with corpus.reader() as reader:
        if size in (1e-30, 1e20, 3e38):  # single precision cannot hold the square
            with refused(reader, "RG305"):
                corpus.database.search(reader, "anything", "dense", k=5, embedding=embedding, space="toy")
        else:
            assert corpus.database.search(reader, "anything", "dense", k=5, embedding=embedding, space="toy")["hits"] == expected


# -- The lexical lane ---------------------------------------------------------------------------------


def bm25(question: list[str], texts: list[list[str]], *, smooth: bool = False) -> list[float]:
    """Okapi BM25 by the book, k1 = 1.2 and b = 0.75, over these texts and no others; smooth: idf as of 100 texts more."""
    n, average = len(texts), sum(map(len, texts)) / len(texts)
    scores = []
    for text in texts:
        score = 0.0
        for word in question:
            df, tf = sum(word in other for other in texts), text.count(word)
            idf = math.log(1 + (n + 100 - df - 1 + 0.5) / (df + 1 + 0.5)) if smooth else math.log(1 + (n - df + 0.5) / (df + 0.5))
            score += idf * 2.2 * tf / (tf + 1.2 * (1 - 0.75 + 0.75 * len(text) / average))
        scores.append(score)
    return scores


@pytest.mark.contract("F1")
@pytest.mark.parametrize("question, texts", [
    pytest.param(["red"], [["red"], ["red", "red"], ["blue"]], id="term frequency"),
    pytest.param(["red"], [["red"], ["red", *["blue"] * 9], ["blue"]], id="length"),
    pytest.param(["red", "rare"], [["red"], ["red", "blue"], ["red", "rare"], ["rare"], ["red"]], id="document frequency"),
    pytest.param(["red", "unseen"], [["red"], ["blue"]], id="a word that is nowhere"),
    pytest.param(["red"], [["red"], ["red"], ["red"]], id="a word that is everywhere"),
    pytest.param(["red"], [["red"] * n + ["blue"] for n in (1, 2, 3, 7, 8, 50, 99, 100, 101, 200, 254, 255)], id="up to 255 times"),
])
def test_bm25_by_hand(world: World, question: list[str], texts: list[list[str]]) -> None:
    with world.writer() as writer:  # a language that PostgreSQL has no stemmer for: a word is a lexeme
        for n, text in enumerate(texts):
            world.database.put_document(writer, f"{n}", " ".join(text), language="xx")
        world.database.put_document(writer, "hidden", "red rare red unseen", readers=["bob"], language="xx")  # moves no score
    expected = bm25(question, texts)
    smooth = bm25(question, texts, smooth=True)
    found = world.search(" ".join(question), k=100)
    hits = by_document(found)
    assert {int(name) for name in hits} == {n for n, score in enumerate(expected) if score > 0}
    dfs = [sum(word in text for text in texts) for word in question]
    most = sum(math.log(1 + (len(texts) - df + 0.5) / (df + 0.5)) * 2.2 for df in dfs)
    smooth_most = sum(math.log(1 + (len(texts) + 100 - df - 1 + 0.5) / (df + 1 + 0.5)) * 2.2 for df in dfs)
    for name, hit in hits.items():
        assert hit["lexical_score"] == pytest.approx(expected[int(name)], abs=2e-6)
        assert hit["score"] == pytest.approx(expected[int(name)] / most, abs=2e-6)
        assert hit["relevance"] == pytest.approx(smooth[int(name)] / smooth_most, abs=2e-6)
    visible_to_bob = by_document(world.search(" ".join(question), k=100, reader="bob"))
    assert "hidden" in visible_to_bob and any(visible_to_bob[name]["lexical_score"] != hit["lexical_score"] for name, hit in hits.items())  # control


IDENTIFIERS = ["PAY-402", "PAY-403", "E-61", "E-62", "v2.3.1", "v2.3.2", "snake_case_name", "snake_case_size", "30-day", "60-day", "INC2024", "10.0.0.1", "10.0.0.2", "RX#77",
               "KF-1-2", "KF-1-3", "a/b_c", "node:8080", "2024-06-01", "2024-06-02", "ERR_TIMEOUT_5", "ß-99", "C3PO"]


@pytest.fixture(scope="module")
def codes(module_database: Database) -> World:
    world = World(module_database, "codes", space=None)
    with world.writer() as writer:
        for n, code in enumerate(IDENTIFIERS):
            module_database.put_document(writer, code.replace("/", "|"), f"Entry {n + 1000}: look at {code} first, then ask the lead.")
        module_database.put_document(writer, "pair", "Both of PAY-404/PAY-405 were seen.")
        module_database.put_document(writer, "either", "Pay with a voucher/coupon at the till.")
        module_database.put_document(writer, "labelled", "It logged error:PAY-406, twice.")
    return world


@pytest.mark.contract("F1")
@pytest.mark.parametrize("code", IDENTIFIERS)
def test_identifiers_are_found_as_written(codes: World, code: str) -> None:
    """First among its near neighbours, in a sentence, in either case, with punctuation around it."""
    for question in (code, f"What does {code} mean?", code.lower(), f"({code})", f"“{code}”,"):
        hits = codes.search(question, k=100, threshold=0)["hits"]
        assert hits and hits[0]["document"] == code.replace("/", "|"), question
        assert len(hits) == 1 or hits[0]["score"] > hits[1]["score"], question


@pytest.mark.contract("F1")
@pytest.mark.parametrize("question, document", [
    ("402", "PAY-402"), ("61", "E-61"), ("PAY 402", "PAY-402"), ("day 30", "30-day"), ("snake size", "snake_case_size"), ("2024 06 02", "2024-06-02"), ("8080", "node:8080"),
    ("KF 1 3", "KF-1-3"), ("PAY-404", "pair"), ("404", "pair"), ("405", "pair"), ("PAY-406", "labelled"), ("vouchers", "either"), ("coupon", "either"), ("a b", "a|b_c"),
])
def test_parts_of_identifiers_are_found(codes: World, question: str, document: str) -> None:
    hits = codes.search(question, k=100, threshold=0)["hits"]
    assert hits and hits[0]["document"] == document
    assert len(hits) == 1 or hits[0]["score"] > hits[1]["score"]
    assert not codes.search(question + "9" if question.isdigit() else "no9such9code")["hits"]  # control


@pytest.mark.contract("F1")
@pytest.mark.parametrize("language, text, question, foreign", [
    ("en", "Refunds are paid", "refunding", "de"), ("de", "Die Rückgaben der Kunden", "Rückgabe", "en"), ("es", "Las devoluciones de pedidos", "devolución", "xx"),
    ("fr", "Les remboursements partiels", "remboursement partiel", "xx"), ("de-AT", "Die Rückgaben", "Rückgabe", "xx"), ("NL", "De terugbetalingen", "terugbetaling", "xx"),
    ("ru", "Возвраты товаров", "возврат", "xx"), ("nb", "Tilbakebetalinger til kunder", "tilbakebetaling", "xx"),
])
def test_stemming_follows_the_language(world: World, language: str, text: str, question: str, foreign: str) -> None:
    world.put("stemmed.md", text, language=language)
    assert documents(world.search(question, threshold=0)) == ["stemmed.md"]
    world.put("stemmed.md", text + " ", language=foreign)  # control: the same words, said to be in another language
    assert documents(world.search(question, threshold=0)) == []


@pytest.mark.contract("F1")
def test_a_language_that_postgresql_does_not_know(world: World) -> None:
    """Its words are found as they are written, without stemming and without stop words."""
    world.put("1.md", "Palautukset maksetaan the kolmessakymmenessä päivässä", language="tlh")
    assert documents(world.search("PALAUTUKSET")) == ["1.md"]
    assert documents(world.search("the")) == ["1.md"]
    assert documents(world.search("palautus")) == []


@pytest.mark.contract("F1", "D2")
def test_each_chunk_has_its_own_language(world: World) -> None:
    with world.writer() as writer:
        call(writer, "stage_revision", "mixed.md", "Die Rückgaben.The returns.", revision="v1", language="en")
        add(writer, "mixed.md", "v1", ["Die Rückgaben.", "The returns."], languages=["de", None])
        call(writer, "verify_revision", "mixed.md", "v1", 2)
        call(writer, "set_access", "mixed.md", ["everyone"])
        call(writer, "activate", "mixed.md", "v1")
    assert [hit["language"] for hit in world.search("Rückgabe")["hits"]] == ["de"]
    assert [hit["language"] for hit in world.search("returning")["hits"]] == ["en"]
    assert world.search("die")["reason"] == "nothing_matches"  # a stop word in German, none in English, and in no chunk


@pytest.mark.contract("F1")
def test_title_and_section_count_as_words(world: World) -> None:
    with world.writer() as writer:
        call(writer, "stage_revision", "t.md", "Thirty days.", "Refund policy", revision="v1")
        add(writer, "t.md", "v1", ["Thirty days."], sections=["Unopened items"])
        call(writer, "verify_revision", "t.md", "v1", 1)
        call(writer, "set_access", "t.md", ["everyone"])
        call(writer, "activate", "t.md", "v1")
    for question, found in (("refund", True), ("unopened", True), ("thirty", True), ("opened", False)):
        assert bool(world.search(question)["hits"]) == found


@pytest.mark.contract("F1")
@pytest.mark.parametrize("written, asked", [("Ru\u0308ckgabe", "R\u00fcckgabe"), ("R\u00fcckgabe", "Ru\u0308ckgabe")])
def test_composed_and_decomposed_letters_are_one(world: World, written: str, asked: str) -> None:
    world.put("1.md", f"Die {written} ist frei.", language="de")
    assert documents(world.search(written)) == ["1.md"]  # control
    assert documents(world.search(asked)) == ["1.md"]


# -- Filters ------------------------------------------------------------------------------------------

METADATA: dict[str, dict[str, Any]] = {
    "a": {"language": "en", "product": "tent", "version": "1", "tags": ["refund", "shop"], "dated": "2024-01-01"},
    "b": {"language": "de", "product": "tent", "version": "2", "tags": ["refund"], "dated": "2024-06-30"},
    "c": {"language": "en", "product": "stove", "version": "2", "tags": ["recall", "refund"], "dated": "2025-01-01"},
    "d": {"language": "xx"},  # says nothing of itself
    "w": {"language": "en", "product": "tent", "version": "1", "tags": ["shop"], "dated": "2024-03-01"},  # in the other source
    "hidden": {"language": "en", "product": "tent", "version": "1", "tags": ["refund", "secret"], "dated": "2024-01-01"},
}


@pytest.fixture(scope="module")
def shelf(module_database: Database) -> World:
    world = World(module_database, "shelf")
    for name, metadata in METADATA.items():
        world.put(name, f"widget {name}", source="wiki" if name == "w" else "handbook", readers=["bob"] if name == "hidden" else ["everyone"], vectors=[[1, 0, 0]], **metadata)
    return world


@pytest.mark.contract("F5")
@pytest.mark.parametrize("filter_, expected", [
    ({}, "abcdw"), (None, "abcdw"),
    ({"source": "handbook"}, "abcd"), ({"source": "wiki"}, "w"), ({"source": ["wiki", "handbook"]}, "abcdw"), ({"source": "nowhere"}, ""), ({"source": "hand%"}, ""),
    ({"language": "de"}, "b"), ({"language": ["de", "xx"]}, "bd"), ({"language": "DE"}, ""),
    ({"product": "tent"}, "abw"), ({"product": ["tent", "stove"]}, "abcw"), ({"product": ""}, ""),
    ({"version": "2"}, "bc"), ({"version": ["1", "3"]}, "aw"),
    ({"tags": ["refund"]}, "abc"), ({"tags": ["refund", "shop"]}, "a"), ({"tags": ["secret"]}, ""),
    ({"date_from": "2024-06-30"}, "bc"), ({"date_to": "2024-06-30"}, "abw"), ({"date_from": "2024-01-02", "date_to": "2024-12-31"}, "bw"), ({"date_from": "2025-01-02"}, ""),
    ({"product": "tent", "tags": ["refund"], "version": "1", "language": "en", "source": "handbook", "date_from": "2024-01-01", "date_to": "2024-01-01"}, "a"),
    ({"product": "tent' or true --"}, ""), ({"product": ["tent", "*"]}, "abw"),
])
def test_filters_narrow_and_never_widen(shelf: World, filter_: dict[str, Any] | None, expected: str) -> None:
    for mode, request in (("lexical", {}), ("dense", DENSE), ("hybrid", DENSE)):
        found = shelf.search("widget", mode, filter=filter_, **request)
        assert sorted(documents(found)) == list(expected)
        assert found["scope"]["documents"] == len(expected)
        assert found["reason"] == (None if expected else "nothing_visible")
    bob = documents(shelf.search("widget", filter=filter_, reader="bob"))
    assert set(bob) - set(expected) <= {"hidden"}  # control: the hidden document matches some of them, for bob
    if filter_ in ({}, {"tags": ["secret"]}):
        assert "hidden" in bob


@pytest.mark.contract("F5", "B7")
def test_filters_and_as_of_together(shelf: World) -> None:
    assert documents(shelf.search("widget", filter={"tags": ["recall"]}, as_of="2026-01-01")) == ["c"]
    assert documents(shelf.search("widget", filter={"tags": ["secret"]}, as_of="2026-01-01")) == []


@pytest.mark.contract("F1", "F5")
def test_statistics_are_those_of_the_filtered_scope(shelf: World) -> None:
    """A word's weight comes from what the filter left: the same chunk, another score."""
    wide, narrow = shelf.search("widget b"), shelf.search("widget b", filter={"language": "de"})
    assert by_document(wide)["b"]["lexical_score"] != by_document(narrow)["b"]["lexical_score"]
    assert by_document(narrow)["b"]["lexical_score"] == pytest.approx(bm25(["widget", "b"], [["widget", "b"]])[0], abs=2e-6)


LANE = ("select string_agg(r.revision || ' ' || float8send(l.score)::text || ' ' || float8send(l.share)::text || float8send(l.evidence)::text, ',' order by r.revision_id) "
        "from unnest(pgrag_private.lexical_plans(row(%s, '{}', null, null, (select array[('{xx}', array_agg(r.revision_id order by 1), array_agg(r.chunk_count order by r.revision_id), "
        "sum(r.chunk_count), sum(r.lexeme_count))::pgrag_private.scope_part] from pgrag_data.revision r), 0, 0, null)::pgrag_private.search_scope, array[%s], '{}', '{}', false)) p "
        "cross join lateral pgrag_private.lexical_lane(p_tenant_id => %s, p_plan => p, p_limit => 100, p_also_revisions => null, p_also_chunks => null) l "
        "join pgrag_data.revision r using (revision_id)")


@pytest.mark.contract("F9")
def test_sums_do_not_depend_on_the_plan(database: Database) -> None:
    """Of many terms, to the last bit: rounding to six decimals would hide it from the answer, and the order of hits comes from what is not rounded."""
    world, dice = World(database, "sums"), random.Random(5)
    words = [f"word{n}" for n in range(40)]
    with world.writer() as writer:
        for n in range(60):
            database.put_document(writer, f"{n}", " ".join(dice.choices(words, k=30)), language="xx")
    found = set()
    with database.superuser() as superuser:
        superuser.execute("analyze")
        (tenant,) = superuser.execute("select tenant_id from pgrag_data.tenant").fetchone()
        for setting in ("work_mem = '4MB'", "enable_hashjoin = off", "enable_mergejoin = off", "enable_nestloop = off", "enable_hashagg = off", "enable_sort = off", "work_mem = '64kB'"):
            with superuser.transaction():
                superuser.execute(f"set local {setting}")
                found.add(superuser.execute(LANE, (tenant, " ".join(words), tenant)).fetchone()[0])
    assert len(found) == 1
