"""The lexical lane against an independent BM25, over the same lexemes, in the same run."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path

import bm25s
import numpy as np
import pytest

from tests.support import Database


def read_collection(folder: Path) -> tuple[list[dict], list[dict], dict[str, dict[str, int]]]:
    """Documents, questions, and the judged relevance of documents by question."""

    def read(name: str) -> list[dict]:
        return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]

    judged: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        question, document, score = line.split("\t")
        judged[question][document] = int(score)
    return read("corpus.jsonl"), read("queries.jsonl"), judged


def ndcg(ranking: list[str], judged: dict[str, int], k: int = 10) -> float:
    """nDCG@k with the judgement itself as gain."""
    gains = [judged.get(document, 0) / math.log2(place + 2) for place, document in enumerate(ranking[:k])]
    best = sorted(judged.values(), reverse=True)[:k]
    return sum(gains) / sum(gain / math.log2(place + 2) for place, gain in enumerate(best))


def put_collection(database: Database, tenant: str, documents: list[dict]) -> None:
    """One document, one chunk; title and text as one body, so that the lexemes are those of an indexed document."""
    database.put_tenant(tenant, space=None)
    database.put_principals(tenant, users=["reader"])
    with database.writer(tenant, "handbook") as writer, writer.pipeline():
        for document in documents:
            body = f"{document['title']}\n{document['text']}".strip()
            arguments = (document["id"], body)
            writer.execute("select pgrag.stage_revision(%s, %s, p_revision => 'v1')", arguments)
            writer.execute(
                "select pgrag.add_chunks(%s, 'v1', 1, array[%s], '{0}', array[length(%s)], '{1}')",
                (document["id"], body, body),
            )
            writer.execute("select pgrag.verify_revision(%s, 'v1', 1)", (document["id"],))
            writer.execute("select pgrag.set_access(%s, '{everyone}')", (document["id"],))
            writer.execute("select pgrag.activate(%s, 'v1')", (document["id"],))


@pytest.mark.contract("F1")
def test_lexical_ranking_equals_an_independent_bm25(database: Database, data: Path) -> None:
    documents, questions, judged = read_collection(data / "cranfield")
    documents = [document for document in documents if (document["title"] + document["text"]).strip()]
    put_collection(database, "cranfield", documents)

    with database.superuser() as superuser:
        superuser.execute("analyze")
        rows = superuser.execute("""
            select d.document, array(select lexeme from unnest(l.lexemes) e, generate_series(1, coalesce(cardinality(e.positions), 1)))
              from pgrag_data.chunk_lex l join pgrag_data.document d on d.active_revision_id = l.revision_id""").fetchall()
        question_lexemes = [
            superuser.execute(
                "select tsvector_to_array(pgrag_private.to_lexemes('en', %s))", (question["text"],)
            ).fetchone()[0]
            for question in questions
        ]
    names = [name for name, _ in rows]
    peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    peer.index([lexemes for _, lexemes in rows], show_progress=False)

    ours, theirs, reversed_ = [], [], []
    with database.reader("cranfield", "reader") as reader:
        for question, lexemes in zip(questions, question_lexemes, strict=True):
            if not judged.get(question["id"]):
                continue
            hits = database.search(reader, question["text"], k=100)["hits"]
            ranking = [hit["document"] for hit in hits]
            scores = peer.get_scores(lexemes)
            best = [names[place] for place in np.argsort(-scores, kind="stable")[:10]]
            ours.append(ndcg(ranking, judged[question["id"]]))
            theirs.append(ndcg(best, judged[question["id"]]))
            reversed_.append(ndcg(ranking[::-1], judged[question["id"]]))
            # Score by score, which a ranking measure could hide: ours has the factor (k1 + 1) that Lucene leaves out.
            for hit in hits[:10]:
                assert hit["lexical_score"] == pytest.approx(
                    2.2 * scores[names.index(hit["document"])], abs=2e-5
                )
    ours_mean, theirs_mean = float(np.mean(ours)), float(np.mean(theirs))
    print(f"nDCG@10 on Cranfield, {len(ours)} questions: pgrag {ours_mean:.4f}, bm25s {theirs_mean:.4f}")
    assert ours_mean == pytest.approx(theirs_mean, abs=0.005)
    assert float(np.mean(reversed_)) < theirs_mean - 0.1  # control: a wrong order is seen
