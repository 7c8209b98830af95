"""README and docs: every block runs, and prints what the page says that it prints."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support import Database
from tools import run_docs

pytest.importorskip("wordllama")


@pytest.fixture(scope="module")
def world(module_database: Database, server_dsn: str) -> Iterator[run_docs.World]:
    """The sample corpus, as the pages' examples find it."""
    from pgrag import _sql, connect, embedded
    from pgrag.embedders import load_embedder
    from pgrag.ingest import StructureChunker, WordTokenizer
    from pgrag.ingest.pipeline import ingest_folder
    from pgrag.setup import apply_corpus

    database, embedder, handbook = module_database, load_embedder("wordllama"), _sql.files("handbook")
    with connect(database.dsn("app_operator")) as operator, connect(database.dsn("app_admin")) as admin:
        corpus = apply_corpus(
            operator,
            handbook / "corpus.yaml",
            admin_connection=admin,
            admin_token=lambda tenant: database.token(tenant, "docs", "admin"),
            space=embedder.space,
        )
    with connect(database.dsn("app_writer")) as writer:
        for tenant in corpus:
            for source in tenant.sources:
                token = database.token(tenant.tenant, "docs", "writer", source=source.source)
                report = ingest_folder(
                    writer,
                    token,
                    handbook / tenant.tenant / source.source,
                    embedder=embedder,
                    chunker=StructureChunker(),
                    tokenizer=WordTokenizer(),
                )
                assert not report.failed

    def token(kind: str, who: str) -> str:
        subject, tenant = who.split("@")
        if kind == "writer":
            return database.token(tenant, "docs", "writer", source=subject)
        return database.token(tenant, subject, kind)

    empty = Database(server_dsn, "pgrag_test_docs")
    with psycopg.connect(server_dsn, autocommit=True) as superuser:
        superuser.execute("drop database if exists pgrag_test_docs with (force)")
        superuser.execute("create database pgrag_test_docs owner pgrag_test_installer")
    with empty.superuser() as superuser:
        superuser.execute("create extension vector")
    options = "-c pgrag.allow_old_pgvector=on" if os.environ.get("PGRAG_TEST_ALLOW_OLD_PGVECTOR") else ""
    yield run_docs.World(
        owner_dsn=empty.dsn("pgrag_test_installer", options=options),
        dsn=lambda role: database.dsn(None if role == "superuser" else f"app_{role}"),
        token=token,
        bindir=embedded.find_bindir(),  # whatever the server: not every tree has a psql that works
    )
    with psycopg.connect(server_dsn, autocommit=True) as superuser:
        superuser.execute("drop database pgrag_test_docs with (force)")


@pytest.mark.parametrize("page", run_docs.PAGES, ids=lambda page: page.name)
def test_a_page_prints_what_it_says(page: Path, world: run_docs.World) -> None:
    refreshed = run_docs.refreshed(page, world)
    if os.environ.get("PGRAG_WRITE_DOCS"):
        page.write_text(refreshed, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == refreshed


def test_a_stale_output_is_seen(world: run_docs.World, tmp_path: Path) -> None:
    """Control: an output that the block does not print is corrected, and so differs."""
    page = tmp_path / "page.md"
    page.write_text(
        "```sql role=reader\nselect pgrag.version();\n```\n\n```text\n9.9.9\n```\n", encoding="utf-8"
    )
    assert "9.9.9" not in run_docs.refreshed(page, world)
    page.write_text("```sql\nselect 1;\n```\n", encoding="utf-8")
    with pytest.raises(ValueError, match="does not say how it runs"):
        run_docs.refreshed(page, world)


def test_commands_that_the_gate_runs_are_in_it() -> None:
    gate = (run_docs.ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for page in [*run_docs.PAGES, run_docs.ROOT / "CONTRIBUTING.md"]:
        for block in re.findall(
            r"^```console ci\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            for command in block.splitlines():
                assert command.removeprefix("$ ").split("#")[0].strip() in gate, (page.name, command)


def test_the_gate_cannot_pass_by_not_looking() -> None:
    """Missing collections fail, and do not skip, where CI is set: so the gate sets it."""
    gate = (run_docs.ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(r"^export CI=1\b", gate, re.MULTILINE)


def test_local_links_lead_somewhere() -> None:
    for page in [*run_docs.PAGES, run_docs.ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), (page.name, target)
