"""Benchmarks run, in their short form, and write what they say that they write. What they measure is no test's matter."""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import _collections, _metrics
from benchmarks.__main__ import main

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str | Path) -> list[dict]:
    """The rows that a benchmark writes."""
    out = Path(arguments[-1])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def test_activation(tmp_path: Path) -> None:
    rows = run("activation", "--short", "--json", tmp_path / "rows.json")
    assert {row["collection"] for row in rows} == {"10 chunks", "10000 chunks"}
    assert {row["metric"] for row in rows} == {"activate_ms", "rollback_ms", "set_access_ms", "delete_ms"}
    assert all(row.keys() == {"arm", "collection", "metric", "value"} and row["value"] > 0 for row in rows)


def test_an_unknown_benchmark_is_refused() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks", "nothing"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "activation" in done.stderr and "_run" not in done.stderr


def test_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each says what it measures: a stray % in a text is an error to argparse, and only then."""

    def helped(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments, "--help"])
        try:
            assert main() == 0
        except SystemExit as end:
            assert end.code == 0
        return capsys.readouterr().out

    names = re.search(r"{(.+)}", helped())[1].split(",")
    assert "filtered" in names and len(names) == 9
    for name in names:
        assert f"usage: python -m benchmarks {name}" in (said := helped(name)) and "%%" not in said


# -- Speed at every selectivity and size ---------------------------------------------------------------------


def test_filtered(tmp_path: Path) -> None:
    """And once more: what is done stays, and the same figures are told again."""
    arms, cells = {"pgrag", "rls_hnsw", "plain"}, {"2k/1%", "2k/100%", "2k/negative"}
    given = ("filtered", "--short", "--chunks", "2k", "--only", "1%,100%,negative", "--arms", ",".join(sorted(arms)))
    given += ("--questions", "8", "--folder", tmp_path / "kept", "--json", tmp_path / "rows.json")
    rows = run(*given)
    assert {row["collection"] for row in rows} == cells and {row["arm"] for row in rows} == arms
    by = {(row["arm"], row["collection"], row["metric"]): row for row in rows}
    for cell in cells:
        assert by["pgrag", cell, "recall@10"]["value"] >= 0.95 and by["pgrag", cell, "short_results"]["value"] == 0
        assert by["rls_hnsw", cell, "p50_ms"]["ratio"] == 1 and by["pgrag", cell, "p95_ms"]["value"] > 0
        assert by["rls_hnsw", cell, "index_bytes"]["value"] > 0 and by["pgrag", cell, "index_bytes"]["of_lists"] >= 0
        assert by["pgrag", cell, "rows_visited"]["visible"] > 0
    assert by["plain", "2k/100%", "recall@10"]["value"] > 0.9 and ("plain", "2k/1%", "recall@10") not in by
    about = json.loads((tmp_path / "rows.json.meta.json").read_text())
    assert set(about["cells"]) == cells and about["cells"]["2k/1%"]["plans"]["rls_hnsw"] and about["steps"]["2k"]["peer hnsw"] >= 0
    assert str(tmp_path) not in json.dumps(about)
    assert run(*given) == rows


def test_growth(tmp_path: Path) -> None:
    rows = run("growth", "--short", "--chunks", "1k,2k", "--tenants", "1,3", "--questions", "3", "--json", tmp_path / "rows.json")
    assert {row["collection"] for row in rows} >= {"1k/fixed", "2k/all", "3 tenants/fixed", "chunks/all", "tenants/fixed"}
    assert {row["arm"] for row in rows} == {"pgrag/dense", "pgrag/lexical", "pgrag/hybrid"}
    assert {row["metric"] for row in rows} == {"p50_ms", "p95_ms", "slope"}  # of so little nothing is projected


def test_storage(tmp_path: Path) -> None:
    rows = run("storage", "--short", "--rows", "1000", "--questions", "4", "--dimensions", "64", "--json", tmp_path / "rows.json")
    by = {(row["arm"], row["collection"], row["metric"]): row for row in rows}
    assert {row["collection"] for row in rows} >= {"1k/64", "1k/64/prefilter", "1k/384/hnsw", "1k/384/leg"}
    assert by["halfvec_plain", "1k/64", "recall@10"]["value"] >= 0.95 and by["vector_plain/lookup", "1k/64", "recall@10"]["value"] == 1
    assert by["binary/400", "1k/64/prefilter", "recall@10"]["value"] > 0.9 and by["exact", "1k/384/leg", "p50_ms"]["p10_ms"] > 0
    assert by["halfvec_cosine/m=16/ef_construction=64", "1k/384/hnsw", "block_bytes"]["value"] > 0


def test_layer(tmp_path: Path) -> None:
    rows = run("layer", "--short", "--chunks", "400", "--questions", "4", "--json", tmp_path / "rows.json")
    by = {(row["arm"], row["collection"], row["metric"]): row for row in rows}
    cells = {f"{mode}/{chunks}" for mode in ("dense", "lexical", "hybrid") for chunks in (200, 400)}
    assert all(by["sql", cell, "same_answers"]["value"] == 1 for cell in cells)  # otherwise it would be other SQL
    assert all(by["pgrag", cell, "p50_ms"]["ratio"] > 0 for cell in cells) and by["client", "python", "p50_ms"]["ratio"] > 0
    assert by["copy", "ingest", "chunks_per_s"]["ratio"] > 0 and by["pgrag", "1000 chunks", "activate_ms"]["ratio"] > 0


def test_churn(tmp_path: Path) -> None:
    rows = run("churn", "--short", "--chunks", "1000", "--questions", "10", "--json", tmp_path / "rows.json")
    by = {(row["arm"], row["collection"], row["metric"]): row for row in rows}
    for arm in ("maintained", "unmaintained"):
        assert by[arm, "1k/2", "recall@10"]["value"] >= 0.9 and by[arm, "1k/2", "p95_ms"]["value"] > 0
        assert by[arm, "1k", "p95_ratio"]["low"] <= by[arm, "1k", "p95_ratio"]["value"] <= by[arm, "1k", "p95_ratio"]["high"]
        assert by[arm, "1k", "longest_lock_wait_ms"]["value"] >= 0 and by[f"fresh/{arm}", "1k", "recall@10"]["value"] >= 0.9


# -- The three on ranking, over collections that are made up here --------------------------------------------

THINGS = ["kettle", "ladder", "lantern", "saddle", "anchor", "compass", "hammer", "violin", "basket", "candle", "mirror", "shovel"]
PLACES = ["harbour", "orchard", "library", "chapel", "workshop", "meadow", "cellar", "kitchen", "stable", "attic"]


def put_collection(folder: Path, *, title: bool = True, header: bool = True, languages: tuple[str, ...] = ("",), unanswered: int = 0) -> Path:
    """Each document is about one thing in one place, and each question asks where to find the thing of a place."""
    folder.mkdir(parents=True)
    draw = random.Random(7)
    corpus, queries, qrels = [], [], ["query-id\tcorpus-id\tscore"] if header else []
    for language in languages:
        said = {"language": language} if language else {}
        for number in range(48):
            thing, place = THINGS[number % len(THINGS)], PLACES[number % len(PLACES)]
            filler = " ".join(draw.choices(THINGS + PLACES, k=6))
            name = f"{language}/d:{number}"  # no key of a document for pgrag, which a collection need not know
            text = f"The {thing} number {number} is kept in the {place}. It is rarely used. {filler}"
            corpus.append({"id": name, "text": text} | ({"title": f"{thing} {number}"} if title else {}) | said)
            if number % 3 == 0:
                queries.append({"id": f"{language}q{number}", "text": f"Where is the {thing} number {number} kept?"} | said)
                qrels.append(f"{language}q{number}\t{name}\t{1 + number % 2}")
        for number in range(unanswered):
            queries.append({"id": f"{language}u{number}", "text": f"How tall is the tower number {number} of Zanzibar?"} | said)
    for file, rows in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
        (folder / file).write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    (folder / "qrels.tsv").write_text("\n".join(qrels) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("collections")
    put_collection(parent / "plain", title=False, header=False, unanswered=6)
    put_collection(parent / "tongues", languages=("en", "de"))
    return parent


CELLS = {"plain", "tongues/de", "tongues/en"}


def check(rows: list[dict], meta: Path, arms: set[str], metrics: set[str]) -> dict[tuple[str, str, str], dict]:
    """Every row has its fields; the arms and metrics that must be there are. The rows, by arm, cell and metric."""
    for row in rows:
        assert {"arm", "collection", "metric", "value"} <= row.keys()
        assert isinstance(row["value"], float) and math.isfinite(row["value"])
        assert not isinstance(row.get("low"), str)
    assert arms <= {row["arm"] for row in rows} and metrics <= {row["metric"] for row in rows}
    about = json.loads(meta.read_text())
    assert about["settings"]["seed"] == 20 and about["versions"]["postgresql"] and about["versions"]["pgvector"]
    assert about["sweep"] and set(about["cells"]) == CELLS and "commit" in about
    assert str(ROOT) not in json.dumps(about) and str(meta.parent) not in json.dumps(about)
    return {(row["arm"], row["collection"], row["metric"]): row for row in rows}


@pytest.mark.contract("K1", "K2", "K3")
def test_lexical(collections: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    arms = {"pgrag", "ts_rank", "ts_rank_1", "ts_rank_cd", "plainto", "bm25s"}
    rows = run("lexical", "--data", collections, "--short", "--arms", ",".join(sorted(arms)), "--json", out)
    by = check(rows, tmp_path / "rows.json.meta.json", arms, {"ndcg@10", "recall@100", "p50_ms", "p95_ms"})
    for cell in CELLS:
        ours = by["pgrag", cell, "ndcg@10"]["value"]
        assert ours >= 0.98 * by["bm25s", cell, "ndcg@10"]["value"] and ours > 0.5
        difference = by["plainto", cell, "ndcg@10"]
        assert difference["minus_default_low"] <= difference["minus_default"] <= difference["minus_default_high"]


@pytest.mark.contract("K2")
def test_hybrid(collections: Path, tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    out = tmp_path / "rows.json"
    arms = {"pgrag", "lexical", "dense", "rrf", "rrf_weighted", "convex", "recipe"}
    given = ("--data", collections / "plain", "--data", collections, "--arms", ",".join(sorted(arms)))
    rows = run("hybrid", *given, "--short", "--questions", "7", "--cache", tmp_path, "--json", out)
    arms |= {"pgrag/candidates=10", "pgrag/candidates=160"}
    by = check(rows, tmp_path / "rows.json.meta.json", arms, {"ndcg@10", "recall@100", "recall@10", "p50_ms", "p95_ms"})
    about = json.loads((tmp_path / "rows.json.meta.json").read_text())
    assert set(about["macro_ndcg@10"]) >= {"pgrag", "lexical", "dense", "better lane of each"} and about["candidates"]
    assert by["rrf", "plain", "ndcg@10"]["better_lane"] in ("lexical", "dense")
    assert list(tmp_path.glob("wordllama-256-*.npz"))  # vectors are kept where it was said


def test_abstain(collections: Path, tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    rows = run("abstain", "--data", collections, "--short", "--cache", tmp_path, "--json", tmp_path / "rows.json")
    metrics = {"auroc", "false_answers", "false_abstentions"}
    by = check(rows, tmp_path / "rows.json.meta.json", {"pgrag", "lexical", "dense"}, metrics)
    areas = {collection for _, collection, metric in by if metric == "auroc"}
    assert areas >= CELLS | {"plain/gold-hidden", "plain/foreign:tongues/en", "tongues/en/foreign:plain"}
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows if row["metric"] == "auroc")
    assert by["pgrag", "plain", "auroc"]["value"] > 0.9
    assert {row["choice"] for row in rows if "choice" in row} == {"shipped", "balanced", "abstain 0.05", "pooled"}


def test_without_collections_a_run_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "lexical", "--data", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "no collection" in done.stderr


# -- Reading and sampling ------------------------------------------------------------------------------------


def test_a_collection_is_read_as_it_comes(tmp_path: Path) -> None:
    corpus = ['{"_id": 1, "text": "one\\u0000 \\ud800"}', '{"id": "2", "title": "only a title", "text": ""}', '{"id": "3", "text": " "}', ""]
    (tmp_path / "corpus.jsonl").write_text("\ufeff" + "\r\n".join(corpus), encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text('{"id": 7, "text": "what?"}\n{"id": 8, "text": "who?", "answerable": false}\n', encoding="utf-8")
    (tmp_path / "qrels.tsv").write_text("7\t0\t1\t2.0\n7\t0\t2\t-1\n8\t0\t1\t0\n", encoding="utf-8")
    (cell,) = _collections.read(tmp_path, "sv")
    assert [(document.id, document.text, document.language) for document in cell.documents] == [("1", "one  ?", "sv"), ("2", "only a title", "sv")]
    assert [(question.id, question.gold, question.answerable) for question in cell.questions] == [("7", {"1": 2, "2": 0}, None), ("8", {}, False)]
    assert cell.judged == cell.questions[:1] and cell.notes == ("1 documents without any text left out",)


def test_a_language_is_a_cell_unless_questions_cross(tmp_path: Path) -> None:
    cells = _collections.read(put_collection(tmp_path / "two", languages=("en", "de")))
    assert [(cell.name, len(cell.documents), len(cell.judged)) for cell in cells] == [("two/de", 48, 16), ("two/en", 48, 16)]
    crossed = (tmp_path / "two" / "qrels.tsv").read_text().replace("\ten/", "\tde/")
    (tmp_path / "two" / "qrels.tsv").write_text(crossed)
    assert [cell.name for cell in _collections.read(tmp_path / "two")] == ["two"]


def test_a_heading_that_is_the_question_is_taken_out_of_its_document(tmp_path: Path) -> None:
    folder = put_collection(tmp_path / "pages")
    heading = {"id": "q0", "text": "Where is it?", "heading": "Where is it?"}
    (folder / "queries.jsonl").write_text(json.dumps(heading), encoding="utf-8")
    documents = [{"id": "a", "text": "Where is it?\n\n## Where is it?\n\nHere."}, {"id": "b", "text": "# Where is it?\nThere."}]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    (folder / "qrels.tsv").write_text("q0\ta\t1\n", encoding="utf-8")
    assert "Where" in _collections.read(folder)[0].documents[0].text  # not without being asked for
    (folder / "SOURCE.txt").write_text('For a fair test remove the line given in "heading".', encoding="utf-8")
    (cell,) = _collections.read(folder)
    assert [document.text for document in cell.documents] == ["\n\nHere.", "# Where is it?\nThere."]


def test_a_sample_is_the_same_again_and_keeps_gold(tmp_path: Path) -> None:
    (cell,) = _collections.read(put_collection(tmp_path / "one"))
    small = _collections.sample(cell, 10, 5, seed=1)
    assert small == _collections.sample(cell, 10, 5, seed=1) != _collections.sample(cell, 10, 5, seed=2)
    assert len(small.documents) == 10 and len(small.questions) == 5
    assert {name for question in small.questions for name in question.gold} <= {document.id for document in small.documents}
    assert _collections.sample(cell, 1000, 1000, seed=1) == cell


# -- Measures, against values computed by hand and against an independent implementation ------------------------

GOLD = {"a": 3, "b": 2, "c": 1, "d": 0, "e": -1}


@pytest.mark.contract("K1", "K3")
def test_measures_by_hand() -> None:
    # Gains 2, 0, 3 at ranks 1 to 3, over 3, 2, 1.
    by_hand = (2 / 1 + 3 / 2) / (3 / 1 + 2 / math.log2(3) + 1 / 2)
    assert _metrics.ndcg(["b", "x", "a"], GOLD) == pytest.approx(by_hand)
    assert _metrics.ndcg(["b", "x", "a"], GOLD, k=1) == pytest.approx(2 / 3)
    assert _metrics.recall(["b", "x", "a"], GOLD) == pytest.approx(2 / 3)
    assert _metrics.recall(["x", "b"], GOLD, k=1) == 0
    assert _metrics.once(["a", "b", "a", "c"]) == ["a", "b", "c"]  # two chunks of one document are one document
    for measure in (_metrics.ndcg, _metrics.recall):
        with pytest.raises(ValueError, match="not defined"):
            measure(["a"], {"a": 0})
    assert _metrics.auroc(np.array([1.0, 2.0]), np.array([0.0, 1.0, 3.0])) == pytest.approx((1.5 + 2) / 6)
    assert _metrics.percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5


def test_thresholds_by_hand() -> None:
    positives, negatives = np.array([0.4, 0.6, 0.8, 0.9]), np.array([0.1, 0.2, 0.5, 0.3])
    assert _metrics.balanced_threshold(positives, negatives) == pytest.approx(0.35)
    assert _metrics.errors(0.55, positives, negatives) == _metrics.Errors(0.55, 0.0, 0.25)
    assert _metrics.quantile_threshold(positives, 0.25) == 0.6  # abstains from one of four
    assert _metrics.quantile_threshold(positives, 0.2) == 0.4
    ours, theirs = _metrics.halves(9, seed=3)
    assert sorted([*ours, *theirs]) == list(range(9)) and len(ours) == 4


def test_intervals() -> None:
    draw = np.random.default_rng(1)
    ours = draw.normal(0.5, 0.2, 200)
    better = _metrics.paired(ours + draw.normal(0.1, 0.05, 200), ours, seed=1)
    assert better.value == pytest.approx(0.1, abs=0.02) and 0 < better.low < better.value < better.high
    same = _metrics.paired(ours, ours, seed=1)
    assert (same.value, same.low, same.high) == (0, 0, 0)
    # Two cells of one collection are half of the mean, the other collection is the other half.
    cells = {"a/x": np.full(9, 0.2), "a/y": np.full(9, 0.4), "b": draw.normal(0.1, 0.05, 200)}
    macro = _metrics.macro(cells, {"a/x": "a", "a/y": "a", "b": "b"}, seed=1)
    assert macro.value == pytest.approx((0.3 + cells["b"].mean()) / 2) and macro.low < macro.value < macro.high
    chance = _metrics.auroc_interval(draw.normal(size=300), draw.normal(size=300), seed=1)
    assert chance.low < 0.5 < chance.high
    # Standard error of a mean difference: the interval is about ±1.96 of it.
    assert better.high - better.low == pytest.approx(2 * 1.96 * 0.05 / math.sqrt(200), rel=0.25)


def test_measures_agree_with_ir_measures_and_see_a_shuffled_ranking() -> None:
    peer = pytest.importorskip("ir_measures")
    draw = random.Random(5)
    names = [f"d{number}" for number in range(300)]
    gold = {f"q{q}": {name: draw.choice([0, 1, 1, 2, 4]) for name in draw.sample(names, 12)} | {names[q]: 3} for q in range(40)}
    # A ranking that knows something: the grade and noise.
    rankings = {q: sorted(names, key=lambda name, q=q: -gold[q].get(name, 0) - draw.gauss(0, 2)) for q in gold}
    qrels = [peer.Qrel(q, name, grade) for q, grades in gold.items() for name, grade in grades.items()]
    ranked = [peer.ScoredDoc(q, name, -place) for q, ranking in rankings.items() for place, name in enumerate(ranking)]
    for measure, ours, k in ((peer.nDCG @ 10, _metrics.ndcg, 10), (peer.R @ 100, _metrics.recall, 100)):
        theirs = {one.query_id: one.value for one in peer.iter_calc([measure], qrels, ranked)}
        assert {q: ours(rankings[q], gold[q], k) for q in gold} == pytest.approx(theirs)
    shuffled = {q: draw.sample(ranking, len(ranking)) for q, ranking in rankings.items()}
    lost = _metrics.paired(*(np.array([_metrics.ndcg(some[q], gold[q]) for q in gold]) for some in (rankings, shuffled)), seed=1)
    assert lost.low > 0.1
