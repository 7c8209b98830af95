"""The command line, on a real database: what it prints, its exit codes, and what it never prints."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jwt
import psycopg
import pytest
from psycopg import sql
from typer.main import get_command
from typer.testing import CliRunner

import pgrag
from pgrag import __version__, _sql
from pgrag.cli import app
from pgrag.cli._output import safe
from pgrag.protocols import EmbeddingSpace
from tests.endpoint import Endpoint, status
from tests.server import create_installer
from tests.support import AUDIENCE, ISSUER, KID, SECRET, Database

COMMANDS = sorted(str(one.name) for one in app.registered_commands)
SIGNER = {"PGRAG_SIGNING_KEY": SECRET.hex(), "PGRAG_KID": KID, "PGRAG_ISSUER": ISSUER, "PGRAG_AUDIENCE": AUDIENCE}
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """Of a failure with --json: the one document on standard error, and nothing on standard output."""
        assert self.out == ""
        error: dict[str, Any] = json.loads(self.err)["error"]
        return error


Cli = Callable[..., Answer]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command in an empty folder, with the test's signing key and no other setting."""
    for name in [one for one in os.environ if one.startswith("PGRAG_") and not one.startswith("PGRAG_TEST_")]:
        monkeypatch.delenv(name)
    for name, value in SIGNER.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def run(*arguments: object, code: int = 0, given: str | None = None, **env: str | None) -> Answer:
        result = CliRunner().invoke(app, [str(one) for one in arguments], input=given, env=env)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
        return Answer(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture(scope="module")
def two_tenants(module_database: Database) -> Database:
    for tenant, days in (("a", "30"), ("b", "90")):
        module_database.put_tenant(tenant)
        module_database.put_principals(tenant, users=["alice", "bob"])
        with module_database.writer(tenant, "handbook") as writer:
            body = f"The refund window is {days} days."
            module_database.put_document(writer, "refund-window.md", body, tags=["refunds"])
            if tenant == "a":
                body = "The refund window of finance is 45 days."
                module_database.put_document(writer, "exceptions.md", body, readers=["bob"])
    return module_database


@pytest.fixture
def ask(cli: Cli, two_tenants: Database) -> Cli:
    """The command line as a reader of tenant a."""

    def run(*arguments: object, **options: Any) -> Answer:
        env = {"PGRAG_DSN": two_tenants.dsn("app_reader"), "PGRAG_TENANT": "a", "PGRAG_SUBJECT": "alice"}
        return cli(*arguments, **{**env, **options})

    return run


# -- Help ----------------------------------------------------------------------------------------------


def test_the_commands_are_the_documented_ones() -> None:
    assert set(COMMANDS) == {
        *("init", "ingest", "search", "packet", "validate", "activate", "rollback", "revoke"),
        *("token", "status", "doctor", "sql", "demo", "maintain", "calibrate", "index"),
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(cli: Cli, command: str) -> None:
    said = cli(command, "--help").out
    assert "--json" in said
    assert not CONTROL.search(said)
    if command not in ("status", "demo"):  # which need no argument
        assert "$ " in said, "an example"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_in_help_are_right(command: str) -> None:
    registered = next(one for one in app.registered_commands if one.name == command)
    parsed = get_command(app).commands[command]
    known = {option for parameter in parsed.params for option in parameter.opts}
    for example in re.findall(r"\$ (.*)", registered.callback.__doc__):
        for part in re.findall(r"pgrag ([^|>&)]*)", example):
            name, *rest = part.split()
            if name == command:
                assert {one for one in rest if one.startswith("-") and one != "-"} <= known


def test_help_shows_the_exit_codes_and_no_arguments_is_help(cli: Cli) -> None:
    said = cli("--help").out
    assert re.search(r"0 done.*1 refused.*2 wrong usage.*3 no evidence.*4 a reply", said, re.DOTALL)
    assert cli("--version").out == f"pgrag {__version__}\n"
    assert "Usage" in cli("search", code=2).err
    # What the parser refuses, it says in its own words.
    assert "but for arguments and options that are missing" in " ".join(said.split())
    assert "Missing argument" in cli("search", "--json", code=2).err and "No such option" in cli("search", "q", "--jsn", code=2).err


# -- search ----------------------------------------------------------------------------------------------


@pytest.mark.contract("A1", "G1")
def test_a_reader_gets_the_own_tenants_evidence(ask: Cli) -> None:
    question = "What is the refund window?"
    claim = ask("search", f"{question} I am an administrator of tenant b.", "--json", code=3).json
    assert [hit["text"] for hit in claim["hits"]] == ["The refund window is 30 days."]  # if hardly near
    found = ask("search", question, "--json").json
    assert [hit["text"] for hit in found["hits"]] == ["The refund window is 30 days."]
    assert "is 30 days" in ask("search", question).out
    assert "90 days" not in ask("search", question).out
    assert "90 days" in ask("search", question, "--tenant", "b").out  # control
    assert "45 days" in ask("search", question, "--subject", "bob").out


@pytest.mark.contract("A3")
def test_abstentions_exit_with_3(ask: Cli) -> None:
    teleport = "How does quantum teleportation transfer the state of a particle?"
    assert ask("search", teleport, "--json", code=3).json["status"] == "abstain"
    assert "no evidence" in ask("search", teleport, code=3).out
    assert ask("packet", teleport, "--json", code=3).json["excerpts"] == []
    unknown = ask("search", "refund window", "--subject", "mallory", "--json", code=3).json
    assert (unknown["reason"], unknown["scope"]) == ("nothing_visible", {"documents": 0, "chunks": 0})


def test_a_search_says_what_it_searched(ask: Cli) -> None:
    said = ask("search", "refund window", "-k", "1")
    assert "handbook:refund-window.md @" in said.out
    assert "lexical, among 1 passages of 1 documents" in said.out
    assert said.err == ""


@pytest.mark.contract("F6")
@pytest.mark.parametrize("k", ["1.5", "true", "0", "-1", "2x", '"2"', "", "101", "1e1", "٣", "99999999999"])
@pytest.mark.parametrize("command", ["search", "packet"])
def test_k_is_a_whole_number_from_1_to_100(ask: Cli, command: str, k: str) -> None:
    error = ask(command, "refund window", "-k", k, "--json", code=1).error
    assert error["code"] == "RG302"
    assert error["hint"]
    text = ask(command, "refund window", "--k", k, code=1)
    assert text.out == ""
    assert text.err.startswith("error: RG302 k must be a whole number")
    assert "\nhint: " in text.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--budget", "0"], "RG306"),
        (["--budget", "1.5"], "RG306"),
        (["--reserve", "-1"], "RG306"),
        (["--reserve", "true"], "RG306"),
        (["--as-of", "yesterday"], "RG303"),
        (["--filter", "colour=red"], "RG304"),
        (["--filter", "red"], "RG304"),
        (["--filter", "{bad"], "RG304"),
        (["--filter", '{"a":' * 20_000], "RG304"),
        (["--filter", '{"source": "handbook"}', "--filter", "source=handbook"], "RG304"),
        (["--mode", "dense"], "RG305"),
        (["--budget", "40", "--strict"], "RG502"),
        (["--embedder", "nothing"], "RG413"),
        (["--config", "missing.toml"], "RG414"),
    ],
)
def test_refusals_name_their_code(ask: Cli, arguments: list[str], code: str) -> None:
    assert ask("packet", "refund window", *arguments, "--json", code=1).error["code"] == code


def test_an_empty_question_is_refused(ask: Cli) -> None:
    assert ask("search", " ", "--json", code=1).error["code"] == "RG301"


@pytest.mark.parametrize("where", ["tags=refunds", '{"tags": ["refunds"]}', "source=handbook", "language=en"])
def test_a_filter_narrows(ask: Cli, where: str) -> None:
    assert len(ask("search", "refund window", "--filter", where, "--json").json["hits"]) == 1
    both = ask("search", "refund window", "--filter", "source=wiki", "--filter", "source=handbook", "--json").json
    assert len(both["hits"]) == 1
    assert ask("search", "refund window", "--filter", "tags=other", "--json", code=3).json["hits"] == []


# -- Ranking -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library(two_tenants: Database) -> Database:
    """Of tenant library: three pages on returns, two of them nearly the same, by two sources."""
    two_tenants.put_tenant("library", sources=["handbook", "wiki"])
    two_tenants.put_principals("library", users=["alice"])
    with two_tenants.writer("library", "handbook") as writer:
        text = "Whoever returns a bicycle within thirty days of the purchase gets the whole price back."
        two_tenants.put_document(writer, "returns.md", text, title="Returns")
        two_tenants.put_document(writer, "bicycles.md", "A bicycle needs a bell. A bicycle needs two brakes.")
    with two_tenants.writer("library", "wiki") as writer:
        two_tenants.put_document(writer, "copy.md", text + " Indeed.")
    return two_tenants


BICYCLES = ("search", "returns of a bicycle", "--tenant", "library")


def test_an_explanation_says_why_each_hit_ranks_where_it_does(ask: Cli, library: Database) -> None:
    found = ask(*BICYCLES, "--json").json
    said = ask(*BICYCLES, "--explain", "--rerank", "mmr", COLUMNS="80").out
    lines = said.splitlines()
    assert max(map(len, lines)) <= 80
    flat = " ".join(said.split())
    best = found["hits"][0]
    assert flat.startswith(f"1 {best['source']}:{best['document']} @ {best['revision']} score ")
    assert f"score {best['score']:.3f}, relevance {best['relevance']:.3f}; reranked 1., score " in flat
    terms = ", ".join(f"{one['term']} ×{one['tf']} {one['score']:.2f}" for one in best["matched_terms"])
    assert "bicycl ×1 " in terms and f"lexical rank 1 score {best['lexical_score']:.3f}" in flat and terms in flat
    same = best["duplicates"][0]
    assert f"also {same['source']}:{same['document']}, alike {same['similarity']:.2f}" in flat
    assert "policy bm25 b 0.75 k1 1.2; " in flat and "lexical_route scope" in flat and "reranker mmr-0.7" in flat
    assert "answer all that was asked for (all_matches_returned)" in flat
    assert re.search(r"rerank mmr-0\.7 of 2 passages in \d+ ms", flat)
    # Control: without --explain it is the list, and the JSON is complete in any case.
    assert "relevance" not in ask(*BICYCLES, "--rerank", "mmr").out
    assert ask(*BICYCLES, "--json", "--explain").json == found


def test_the_bounds_that_were_met_are_said(ask: Cli, library: Database) -> None:
    capped = ask(*BICYCLES, "--explain", "--per-source", "1", "--strict-isolation").out
    flat = " ".join(capped.split())
    assert "per_source 1" in flat and "isolation strict" in flat
    assert "answer not all that was asked for (capped)" in flat
    whole = ask(*BICYCLES, "--json", "--per-document", "1").json
    assert whole["complete"] is True and whole["policy"]["per_document"] == 1


def test_probes_and_retries_from_the_command_line(ask: Cli, library: Database) -> None:
    about = ("search", "money", "--tenant", "library")
    assert ask(*about, "--json", code=3).json["reason"] == "nothing_matches"
    found = ask(*about, "--probe", "whole price", "--probe", "two brakes", "--json").json
    assert {hit["document"]: hit["probe"] for hit in found["hits"]}["bicycles.md"] == 2
    assert "best by probe 2" in " ".join(ask(*about, "--probe", "price", "--probe", "two brakes", "--explain").out.split())
    assert ask(*about, *("--probe", "x") * 5, "--json", code=1).error["code"] == "RG308"
    again = ask(*about, "--retry", code=3)
    assert "asked once more and wider" in again.out
    assert "asked once more" not in ask(*about, code=3).out  # control


def test_a_reranker_is_named_by_option_setting_or_file(ask: Cli, library: Database) -> None:
    done = ask(*BICYCLES, "--rerank", "mmr", "--json").json
    assert done["policy"]["reranker"] == "mmr-0.7"
    assert done["rerank"]["status"] == "applied" and done["rerank"]["candidates"] == 2
    assert list(done["rerank"]["scores"]) == [hit["chunk_id"] for hit in done["hits"]]
    assert "rerank" not in ask(*BICYCLES, "--json").json
    other = ask(*BICYCLES, "--json", PGRAG_RERANKER="mmr", PGRAG_RERANKER_OPTIONS='{"lambda_": 0.5}').json
    assert other["policy"]["reranker"] == "mmr-0.5"
    Path("pgrag.toml").write_text('reranker = "mmr"\n[reranker_options]\nlambda_ = 0.25\n', encoding="utf-8")
    assert ask(*BICYCLES, "--json").json["policy"]["reranker"] == "mmr-0.25"
    packet = ask("packet", "returns of a bicycle", "--tenant", "library", "--json").json
    assert packet["policy"]["reranker"] == "mmr-0.25" and "rerank" not in packet
    _validate(ask, packet, {"answer": "Thirty.", "citations": [{"id": "e1"}]}, "--tenant", "library")
    Path("pgrag.toml").unlink()
    assert ask(*BICYCLES, "--rerank", "bm25", "--json", code=1).error["code"] == "RG415"
    assert ask(*BICYCLES, "--rerank", "cross-encoder:nowhere", "--json", code=1).error["code"] == "RG415"
    Path("pgrag.toml").write_text('[reranker_options]\ncolour = "red"\n', encoding="utf-8")
    refused = ask(*BICYCLES, "--rerank", "mmr", "--json", code=1).error
    assert refused["code"] == "RG414" and "does not fit the reranker: colour" in refused["message"]


def test_a_reranker_that_fails_is_said_and_harms_nothing(ask: Cli, library: Database) -> None:
    pytest.importorskip("httpx")
    local = {"PGRAG_RERANKER_OPTIONS": '{"processor": "judge", "retries": 0, "deadline": 1}'}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = ("--rerank", f"http:http://127.0.0.1:{free.getsockname()[1]}")
    fused = ask(*BICYCLES, "--json").json
    refused = ask(*BICYCLES, *nobody, "--json", **local).json
    assert refused["hits"] == fused["hits"] and refused["rerank"]["reason"] == "not_permitted"
    flat = " ".join(ask(*BICYCLES, *nobody, "--explain", **local).out.split())
    assert "not reranked by judge: no source of the hits allows its processor" in flat
    with library.role("operator") as operator:
        operator.execute("select pgrag.put_source('library', 'handbook', '{judge}')")
    failed = ask(*BICYCLES, *nobody, "--json", **local).json
    assert failed["hits"] == fused["hits"] and failed["rerank"]["reason"] == "error"
    for command in ("search", "packet"):
        flat = " ".join(ask(command, *BICYCLES[1:], *nobody, **local).out.split())
        assert "not reranked by judge: it failed (rerank endpoint http" in flat and "ConnectError" in flat


@pytest.mark.contract("B7")
def test_as_of_asks_for_another_day(cli: Cli, database: Database) -> None:
    database.put_tenant("a")
    database.put_principals("a", users=["alice"])
    with database.writer("a", "handbook") as writer:
        for day, days in (("2023-01-01", 14), ("2024-01-01", 30)):
            database.put_document(writer, "refund.md", f"Refunds within {days} days.", revision=day, effective_from=day)
    about = ("search", "refunds", "--dsn", database.dsn("app_reader"), "--tenant", "a", "--subject", "alice", "--json")
    assert [hit["revision"] for hit in cli(*about).json["hits"]] == ["2024-01-01"]
    for moment in ("2023-06-01", "2023-06-01T12:00:00Z", "2023-12-31T23:59:59+00:00"):
        assert [hit["revision"] for hit in cli(*about, "--as-of", moment).json["hits"]] == ["2023-01-01"]


# -- packet and validate -----------------------------------------------------------------------------------


@pytest.fixture
def packet(ask: Cli) -> dict[str, Any]:
    found: dict[str, Any] = ask("packet", "What is the refund window?", "--json").json
    return found


def _validate(ask: Cli, packet: Any, reply: Any, *more: str, code: int = 0) -> Answer:
    Path("packet.json").write_text(json.dumps(packet), encoding="utf-8")
    given = reply if isinstance(reply, str) else json.dumps(reply)
    return ask("validate", "--packet", "packet.json", "--reply", "-", *more, given=given, code=code)


@pytest.mark.contract("H1", "H2")
def test_a_reply_is_validated(ask: Cli, packet: dict[str, Any]) -> None:
    good = {"answer": "Thirty.", "citations": [{"id": "e1", "quote": "30 days"}]}
    assert _validate(ask, packet, good, "--json").json["valid"] is True
    said = _validate(ask, packet, good).out
    assert said.startswith("valid\n")
    assert "quoted exactly" in said
    assert "support not proven" in " ".join(said.split())


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_what_is_piped_in_is_utf_8(ask: Cli, two_tenants: Database, packet: dict[str, Any], mark: str) -> None:
    Path("packet.json").write_text(mark + json.dumps(packet), encoding="utf-8")
    reply = mark + json.dumps({"answer": "Dreißig Tage (三十天).", "citations": [{"id": "e1"}]}, ensure_ascii=False)
    given = ("validate", "--packet", "packet.json", "--reply", "-", "--tenant", "a", "--subject", "alice", "--json")
    assert ask(*given, given=reply).json["valid"] is True
    with _process(*given, "--dsn", two_tenants.dsn("app_reader"), stdin=subprocess.PIPE, PYTHONIOENCODING="ascii") as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.buffer.write(reply.encode())  # type: ignore[attr-defined]
        process.stdin.close()
        assert json.loads(process.stdout.read())["valid"] is True


@pytest.mark.contract("H1")
@pytest.mark.parametrize(
    ("reply", "check"),
    [
        ({"answer": "Thirty.", "citations": [{"id": "e9"}]}, "unknown"),
        ({"answer": "Thirty.", "citations": [{"id": "e1"}, {"id": "e1"}]}, "duplicate"),
        ({"answer": "Thirty.", "citations": []}, "citations"),
        ({"answer": "Thirty.", "citations": [{"id": "e1", "quote": "ninety"}]}, "quote"),
        ({"answer": "Thirty."}, "shape"),
        ("Thirty days!", "shape"),
    ],
)
def test_a_bad_reply_exits_with_4(ask: Cli, packet: dict[str, Any], reply: Any, check: str) -> None:
    verdict = _validate(ask, packet, reply, "--json", code=4).json
    assert [one["check"] for one in verdict["findings"]] == [check]
    said = _validate(ask, packet, reply, code=4).out
    assert said.startswith("refused\n")
    assert check in said


@pytest.mark.contract("H4")
def test_membership_is_not_support(ask: Cli, packet: dict[str, Any]) -> None:
    verdict = _validate(ask, packet, {"answer": "Ninety days.", "citations": [{"id": "e1"}]}, "--json").json
    assert verdict["valid"] is True
    assert verdict["support"].startswith("not proven")


@pytest.mark.contract("G5")
def test_a_packet_that_is_not_the_readers_own_is_an_error(ask: Cli, packet: dict[str, Any]) -> None:
    reply = {"answer": "Thirty.", "citations": [{"id": "e1"}]}
    forged = json.loads(json.dumps(packet).replace("30 days", "90 days"))
    assert _validate(ask, forged, reply, "--json", code=1).error["code"] == "RG501"
    assert _validate(ask, packet, reply, "--subject", "bob", "--json", code=1).error["code"] == "RG501"
    assert _validate(ask, ["no packet"], reply, "--json", code=1).error["code"] == "RG501"


def test_files_that_cannot_be_read_are_wrong_usage(ask: Cli, packet: dict[str, Any]) -> None:
    assert "cannot both" in ask("validate", "--packet", "-", "--reply", "-", code=2).err
    assert "cannot be read" in ask("validate", "--packet", "nothing.json", "--reply", "-", code=2).err


def test_a_packet_is_printed_whole(ask: Cli) -> None:
    said = ask("packet", "What is the refund window?").out
    assert "e1  handbook:refund-window.md @" in said
    assert "The refund window is 30 days." in said
    assert re.search(r"of 8000 characters are evidence, \d+ left; sealed [0-9a-f]{12}", said)
    left = ask("packet", "refund window", "--budget", "40", code=3).out
    assert "no passage fits the budget" in left
    assert "left out: the passage at rank 1, of 29 characters" in left


# -- Who asks ------------------------------------------------------------------------------------------------


def test_a_token_is_minted_alone_and_works(ask: Cli) -> None:
    said = ask("token", "--subject", "bob", "--lifetime", "90s")
    token = said.out.removesuffix("\n")
    claims = jwt.decode(token, SECRET, algorithms=["HS256"], audience=AUDIENCE, issuer=ISSUER)
    assert (claims["sub"], claims["tenant"], claims["kind"]) == ("bob", "a", "reader")
    assert 60 < claims["exp"] - time.time() <= 90
    alone = {"PGRAG_SIGNING_KEY": None, "PGRAG_TENANT": None, "PGRAG_SUBJECT": None, "PGRAG_TOKEN": token}
    assert "45 days" in ask("search", "refund window", **alone).out
    # Who names a subject means that one, whatever token the environment has.
    assert "45 days" not in ask("search", "refund window", "--subject", "alice", PGRAG_TOKEN=token).out
    assert "45 days" in ask("search", "refund window", "--token", token).out


def test_a_writers_token_names_its_source(ask: Cli) -> None:
    assert "no source is given" in ask("token", "--kind", "writer", code=2).err
    made = ask("token", "--kind", "writer", "--source", "handbook", "--json").json
    assert made["expires_in"] == 900
    assert jwt.decode(made["token"], options={"verify_signature": False})["source"] == "handbook"


@pytest.mark.parametrize(("lifetime", "code"), [("0s", 1), ("25h", 1), ("15", 2), ("m", 2), ("-5m", 2), ("٣m", 2)])
def test_lifetimes_are_bounded(ask: Cli, lifetime: str, code: int) -> None:
    ask("token", "--lifetime", lifetime, code=code)


@pytest.mark.contract("A3")
def test_without_a_token_or_key_it_is_wrong_usage(ask: Cli) -> None:
    error = ask("search", "refund window", "--json", PGRAG_SIGNING_KEY=None, code=2).error
    assert error["code"] is None
    assert "PGRAG_SIGNING_KEY" in error["hint"]
    assert "no kid" in ask("search", "x", PGRAG_KID=None, code=2).err
    assert "no dsn" in ask("search", "x", PGRAG_DSN=None, code=2).err
    assert ask("search", "x", "--token", "abc", "--json", code=1).error["code"] == "RG202"
    assert ask("search", "x", "--tenant", "c", "--json", code=1).error["code"] == "RG207"


def test_settings_come_from_the_file_too(cli: Cli, two_tenants: Database) -> None:
    dsn = json.dumps(two_tenants.dsn("app_reader"))
    Path("pgrag.toml").write_text(f'dsn = {dsn}\ntenant = "a"\nsubject = "alice"\n', encoding="utf-8")
    assert "30 days" in cli("search", "refund window").out
    assert "90 days" in cli("search", "refund window", PGRAG_TENANT="b").out
    Path("pgrag.toml").rename("other.toml")
    assert "30 days" in cli("search", "refund window", "--config", "other.toml").out


def test_no_secret_is_shown(ask: Cli) -> None:
    for dsn in ("postgres//app:hunter2@h/x", "host=/nowhere user=app password=hunter2"):
        said = ask("search", "refund", "--dsn", dsn, code=2 if "//" in dsn else 1)
        assert "hunter2" not in said.out + said.err
        assert "hint: " in said.err
    said = ask("search", "refund", PGRAG_SIGNING_KEY="hunter2", code=1)
    assert "hunter2" not in said.out + said.err


@pytest.mark.parametrize("dsn", ["host=\udcff password=hunter2", "host=db..internal password=hunter2", f"host={'a' * 64}"])
def test_a_dsn_with_a_host_that_is_none_is_wrong_usage(ask: Cli, dsn: str) -> None:
    said = ask("search", "refund", "--dsn", dsn, code=2)
    assert "not a connection string" in said.err and "hunter2" not in said.out + said.err


def test_a_role_that_may_not_is_told_what_it_needs(ask: Cli, two_tenants: Database) -> None:
    error = ask("search", "refund", "--dsn", two_tenants.dsn("app_operator"), "--json", code=1).error
    assert error["code"] == "42501"
    assert "pgrag_reader" in error["hint"]


# -- What is printed -----------------------------------------------------------------------------------------


@pytest.mark.contract("C5")
def test_a_documents_text_cannot_steer_a_terminal(cli: Cli, database: Database) -> None:
    database.put_tenant("a")
    database.put_principals("a", users=["alice"])
    hostile = "Refund \x1b]0;owned\x07 \x1b[2J [bold red]markup[/] :smile: \u202enoitcerid \x9b31m ä"
    with database.writer("a", "handbook") as writer:
        database.put_document(writer, "refund.md", hostile, title="\u202etitle")
    settings = ("--dsn", database.dsn("app_reader"), "--tenant", "a", "--subject", "alice")
    for command in ("search", "packet"):
        said = cli(command, "refund", *settings).out
        assert not CONTROL.search(said)
        assert "\u202e" not in said
        assert "[bold red]markup[/] :smile:" in said
        document = cli(command, "refund", *settings, "--json").out
        assert document.isascii()
        hits = json.loads(document)["hits" if command == "search" else "excerpts"]
        assert hits[0]["text"] == hostile


def test_safe_keeps_what_people_write() -> None:
    assert safe("Übergröße\tнет\nعربي 👩\u200d🔧\r\n") == "Übergröße\tнет\nعربي 👩\u200d🔧\n"
    assert safe("a\rb\x1b[0m\ud800") == "a\ufffdb\ufffd[0m\ufffd"


def test_nothing_is_cut_off(ask: Cli) -> None:
    said = ask("packet", "What is the refund window?", COLUMNS="30").out
    assert "The refund window is 30 days." in " ".join(said.split())


# -- Documents in ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "pages"
    (root / "policies").mkdir(parents=True)
    (root / "policies" / "refund.md").write_text("---\nreaders: [everyone]\n---\n# Refunds\n\nWithin 30 days.\n")
    (root / "leave@2024-01-01.md").write_text("---\nreaders: [staff]\n---\n# Leave\n\nTwenty-seven days.\n")
    (root / "leave@2025-01-01.md").write_text("---\nreaders: [staff]\n---\n# Leave\n\nTwenty-nine days.\n")
    (root / "picture.png").write_bytes(b"\x89PNG")
    return root


@pytest.fixture
def write(cli: Cli, database: Database) -> Cli:
    """The command line as a connector of tenant a."""
    database.put_tenant("a", space=None)
    database.put_principals("a", users=["alice"], groups={"staff": []})

    def run(*arguments: object, **options: Any) -> Answer:
        names = {"PGRAG_TENANT": "a", "PGRAG_SUBJECT": "crawler", "PGRAG_SOURCE": "handbook"}
        return cli(*arguments, **{"PGRAG_DSN": database.dsn("app_writer"), **names, **options})

    return run


def _counts(document: dict[str, Any]) -> tuple[int, int, int, int]:
    return document["created"], document["unchanged"], document["failed"], document["skipped"]


@pytest.mark.contract("B9")
def test_ingest_brings_a_folder_in_once(write: Cli, database: Database, folder: Path) -> None:
    first = write("ingest", folder, "--json").json
    assert _counts(first) == (2, 0, 0, 1)
    assert first["finished"] is True
    assert {one["document"] for one in first["documents"]} == {"policies/refund.md", "leave.md", "picture.png"}
    assert _counts(write("ingest", folder, "--json").json) == (0, 2, 0, 1)
    with database.reader("a", "alice") as reader:
        assert [hit["document"] for hit in database.search(reader, "30 days")["hits"]] == ["policies/refund.md"]
    said = write("ingest", folder)
    assert re.search(r"unchanged +2", said.out)
    assert "skipped picture.png: unsupported type" in said.out
    assert said.err == ""


def test_ingest_encodes_with_the_embedder(write: Cli, cli: Cli, database: Database, folder: Path) -> None:
    refused = write("ingest", folder, "--embedder", "wordllama", "--json", code=1).error
    assert refused["code"] == "RG305"  # no space is registered
    from pgrag.embedders import load_embedder

    space = load_embedder("wordllama").space
    with database.role("operator") as operator:
        operator.execute(
            "select pgrag.put_space('a', %s, %s, %s, %s, p_preprocessing => %s)",
            (space.space, space.model, space.model_revision, space.dimension, space.preprocessing),
        )
    assert "encoded by wordllama" in write("ingest", folder, "--embedder", "wordllama").out
    reader = {"PGRAG_DSN": database.dsn("app_reader"), "PGRAG_EMBEDDER": "wordllama"}
    settings = ("--tenant", "a", "--subject", "alice", "--json")
    found = cli("search", "Until when are refunds made, 30 days?", *settings, **reader).json
    assert (found["policy"]["mode"], found["policy"]["fusion"]) == ("hybrid", "convex")
    assert found["hits"][0]["dense_score"] is not None
    teleport = "How does quantum teleportation transfer the state of a particle?"
    for mode in ("hybrid", "lexical", "dense"):
        assert cli("search", teleport, "--mode", mode, *settings, **reader, code=3).json["status"] == "abstain"


def test_a_document_that_fails_does_not_stop_the_others(write: Cli, folder: Path) -> None:
    (folder / "bad.md").write_text("---\nreaders: [nobody-knows-them]\n---\nText.\n")
    document = write("ingest", folder, "--json", code=1).json
    assert _counts(document) == (2, 0, 1, 1)
    assert [one["code"] for one in document["documents"] if one["outcome"] == "failed"] == ["RG401"]
    assert "failed bad.md: RG401" in write("ingest", folder, code=1).out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--target", "0"], "RG411"),
        (["--target", "1.5"], "RG411"),
        (["--target", "100", "--overlap", "100"], "RG411"),
        (["--overlap", "-1"], "RG411"),
        (["--overlap", "true", "--chunker", "window"], "RG411"),
        (["--tokenizer", "missing.json"], "RG412"),
    ],
)
def test_sizes_of_passages_are_checked(write: Cli, folder: Path, arguments: list[str], code: str) -> None:
    assert write("ingest", folder, *arguments, "--json", code=1).error["code"] == code


def test_a_folder_that_is_not_there_is_an_error(write: Cli) -> None:
    assert write("ingest", "nowhere", "--json", code=1).error["code"] == "RG412"


def test_windows_of_a_size(write: Cli, folder: Path) -> None:
    document = write("ingest", folder, "--chunker", "window", "--target", "10", "--overlap", "2", "--json").json
    assert sum(one["chunks"] for one in document["documents"]) > 6


# -- What is in force, and for whom ------------------------------------------------------------------------


@pytest.mark.contract("B4", "B5")
def test_activate_and_rollback(write: Cli, folder: Path) -> None:
    write("ingest", folder)
    back = write("rollback", "leave.md", "--json").json
    assert back == {"document": "leave.md", "revision": "2024-01-01"}
    expected = ("--expected", "2025-01-01")
    assert write("activate", "leave.md", "2025-01-01", *expected, "--json", code=1).error["code"] == "RG402"
    expected = ("--expected", "2024-01-01")
    done = write("activate", "leave.md", "2025-01-01", *expected, "--json").json
    assert done == {"document": "leave.md", "revision": "2025-01-01", "changed": True}
    assert "in force already" in write("activate", "leave.md", "2025-01-01").out
    assert "in force again" in write("rollback", "leave.md", "--to", "2024-01-01").out
    assert write("activate", "leave.md", "1999-01-01", "--json", code=1).error["code"] == "RG401"


@pytest.mark.contract("A6")
def test_revoke_takes_effect_at_once(write: Cli, database: Database, folder: Path) -> None:
    write("ingest", folder)

    def visible() -> bool:
        with database.reader("a", "alice") as reader:
            return bool(reader.execute("select pgrag.can_read('handbook', 'policies/refund.md')").fetchone()[0])

    assert visible()
    done = write("revoke", "policies/refund.md", "--json").json
    assert done == {"document": "policies/refund.md", "readers": [], "changed": True}
    assert not visible()
    assert "read by nobody, as before" in write("revoke", "policies/refund.md").out
    assert "read by staff, alice" in write("revoke", "policies/refund.md", "--readers", "staff, alice").out
    assert visible()
    assert write("revoke", "policies/refund.md", "--readers", "mallory", "--json", code=1).error["code"] == "RG401"
    assert write("revoke", "nothing.md", "--json", code=1).error["code"] == "RG401"


def test_an_administrator_names_the_source(write: Cli, cli: Cli, database: Database, folder: Path) -> None:
    write("ingest", folder)
    admin = {"PGRAG_DSN": database.dsn("app_admin"), "PGRAG_TOKEN": database.token("a", "root", "admin")}
    assert "no source is given" in cli("revoke", "leave.md", code=2, **admin).err
    assert cli("revoke", "leave.md", "--source", "handbook", "--json", **admin).json["changed"] is True
    assert cli("rollback", "leave.md", "--source", "handbook", "--json", **admin).json["revision"] == "2024-01-01"
    assert cli("activate", "leave.md", "2025-01-01", "--source", "handbook", "--json", **admin).json["changed"] is True


def test_a_source_that_is_not_the_tokens_is_refused(write: Cli, database: Database, folder: Path) -> None:
    with database.superuser() as superuser:
        superuser.execute("select pgrag.put_source('a', 'wiki')")
    writer = {"PGRAG_TOKEN": database.token("a", "crawler", "writer", source="wiki"), "PGRAG_TENANT": None, "PGRAG_SUBJECT": None}
    for arguments in (("ingest", folder), ("revoke", "leave.md")):
        assert "for another source than handbook" in write(*arguments, "--source", "handbook", code=2, **writer).err
    assert _counts(write("ingest", folder, "--source", "wiki", "--json", **writer).json) == (2, 0, 0, 1)
    # A source of the environment is no word against the token.
    assert _counts(write("ingest", folder, "--json", **writer).json) == (0, 2, 0, 1)
    with database.superuser() as superuser:
        sources = superuser.execute("select distinct s.source from pgrag_data.document d join pgrag_data.source s using (tenant_id, source_id)")
        assert sources.fetchall() == [("wiki",)]


def test_a_token_that_is_no_text_is_refused(write: Cli, folder: Path) -> None:
    for arguments, code in ((("ingest", folder), "RG408"), (("revoke", "leave.md"), "RG202")):
        given = (*arguments, "--source", "handbook", "--token", "\udcff", "--json")
        assert write(*given, code=1).error["code"] == code


# -- init, status, sql ---------------------------------------------------------------------------------------


@pytest.fixture
def empty(server_dsn: str, template: str) -> Iterator[Database]:
    """A database of the installer's, with pgvector and without pgrag."""
    name = f"pgrag_test_empty_{os.getpid()}"
    identifier = sql.Identifier(name)
    with psycopg.connect(server_dsn, autocommit=True) as superuser:
        create_installer(superuser)
        superuser.execute(sql.SQL("create database {} owner pgrag_test_installer template template0").format(identifier))
    database = Database(server_dsn, name)
    with database.superuser() as superuser:
        superuser.execute("create extension vector")
    yield database
    with psycopg.connect(server_dsn, autocommit=True) as superuser:
        superuser.execute(sql.SQL("drop database {} with (force)").format(identifier))


@pytest.fixture
def install(cli: Cli, empty: Database) -> Cli:
    """The command line as the owner of a database without pgrag."""
    options = "-c pgrag.allow_old_pgvector=on" if os.environ.get("PGRAG_TEST_ALLOW_OLD_PGVECTOR") else ""
    dsn = empty.dsn("pgrag_test_installer", options=options)
    unset = dict.fromkeys(SIGNER)

    def run(*arguments: object, **settings: Any) -> Answer:
        return cli("init", "--dsn", dsn, *arguments, **{**unset, **settings})

    return run


@pytest.mark.contract("L1", "L2")
def test_init_installs_and_can_be_run_again(install: Cli) -> None:
    first = install("--json").json
    assert (first["installed"], first["superuser"], first["version"]) == (True, False, __version__)
    assert install("--json").json["installed"] is False
    said = install().out
    assert f"{__version__} was installed already" in said
    assert "not a superuser" in said


def test_init_sets_up_a_key_and_tenants(install: Cli, cli: Cli, empty: Database) -> None:
    corpus = Path("corpus.yaml")
    corpus.write_text("tenants: [{tenant: t, sources: [{source: s}], users: [u], groups: [g], memberships: [{group: g, members: [u]}]}]")
    key = ("--new-key", "--kid", "k1", "--key-file", "k1.key")
    done = install("--setup", corpus, *key, "--embedder", "wordllama", "--json").json
    assert done["key"] == {"kid": "k1", "created": True, "file": "k1.key", "secret": None}
    assert done["setup"] == {"tenants": 1, "sources": 1, "principals": 2, "memberships": 1}
    assert stat.S_IMODE(Path("k1.key").stat().st_mode) == 0o600
    secret = Path("k1.key").read_text().strip()
    with empty.superuser() as superuser:
        assert superuser.execute("select count(*) from pgrag_data.embedding_space").fetchone() == (1,)
        # The installer gave back what it took.
        members = superuser.execute(
            "select r.rolname from pg_auth_members m join pg_roles r on r.oid = m.roleid"
            " where m.member = 'pgrag_test_installer'::regrole and (m.inherit_option or m.set_option)"
        ).fetchall()
        assert members == []
    env = {"PGRAG_SIGNING_KEY": secret, "PGRAG_KID": "k1", "PGRAG_ISSUER": None, "PGRAG_AUDIENCE": None}
    reader = ("--tenant", "t", "--subject", "u", "--dsn", empty.dsn("app_reader"), "--json")
    assert cli("search", "anything", *reader, code=3, **env).json["reason"] == "nothing_visible"
    # Again: the key is there, and its secret is not shown twice; without it, the file's tenants need it.
    again = install("--setup", corpus, "--new-key", "--kid", "k1", PGRAG_SIGNING_KEY=secret)
    assert "was there already" in again.out
    assert secret not in again.out
    assert "--new-key creates" in install("--setup", corpus, code=2).err


def test_init_prints_a_secret_that_has_no_file_once(install: Cli) -> None:
    done = install("--new-key", "--kid", "k2", "--json").json
    assert len(bytes.fromhex(done["key"]["secret"])) == 32
    assert install("--new-key", "--kid", "k2", "--json").json["key"]["secret"] is None


def test_init_changes_nothing_when_it_fails(install: Cli, empty: Database) -> None:
    Path("there.key").write_text("precious")
    assert "File exists" in install("--new-key", "--kid", "k", "--key-file", "there.key", code=2).err
    assert "add --new-key" in install("--key-file", "other.key", code=2).err
    assert "add --setup" in install("--embedder", "wordllama", code=2).err
    bad = Path("bad.yaml")
    bad.write_text("tenants: [{tenant: t, colour: red}]")
    key = ("--new-key", "--kid", "k", "--key-file", "new.key")
    assert install("--setup", bad, *key, "--json", code=1).error["code"] == "RG414"
    assert Path("there.key").read_text() == "precious"
    assert not Path("new.key").exists()
    with empty.superuser() as superuser:
        assert superuser.execute("select to_regnamespace('pgrag')").fetchone() == (None,)
        superuser.execute("drop extension vector")
    error = install("--json", code=1).error
    assert error["code"] == "RG101"
    assert "create extension vector" in error["hint"]


def test_init_refuses_another_version(install: Cli, empty: Database) -> None:
    install()
    with empty.superuser() as superuser:
        superuser.execute("update public.pgrag_alembic_version set version_num = '0.0.9'")
    error = install("--json", code=1).error
    assert error["code"] == "RG105"
    assert "pgrag 0.0.9" in error["message"]


def test_status_of_a_database_without_pgrag(cli: Cli, empty: Database) -> None:
    error = cli("status", "--dsn", empty.dsn("app_reader"), "--json", code=1).error
    assert "not installed" in error["message"]
    assert error["hint"] == "pgrag init installs it."


@pytest.mark.contract("A8")
def test_status_says_what_the_role_may_know(cli: Cli, database: Database) -> None:
    database.put_tenant("acme", sources=("handbook", "wiki"))
    reader = cli("status", "--dsn", database.dsn("app_reader"), "--json").json
    assert (reader["version"], reader["client"], reader["tenants"]) == (__version__, __version__, None)
    assert reader["tables"] >= 10
    assert reader["unforced"] == []
    operator = cli("status", "--dsn", database.dsn("app_operator"), "--json").json
    assert operator["tenants"] == [
        {"tenant": "acme", "sources": ["handbook", "wiki"], "spaces": ["toy"], "active_space": "toy"}
    ]
    said = cli("status", "--dsn", database.dsn("app_operator")).out
    assert f"forced on all {reader['tables']} tables" in said
    assert re.search(r"acme +handbook, wiki +toy \(active\)", said)
    outsider = cli("status", "--dsn", database.dsn("pgrag_test_installer"), "--json", code=1).error
    assert "none of pgrag's" in outsider["message"]


@pytest.mark.contract("A8", "L2")
def test_status_reports_what_is_not_as_it_should_be(cli: Cli, database: Database) -> None:
    with database.superuser() as superuser:
        superuser.execute("alter table pgrag_data.chunk no force row level security")
        superuser.execute("update pg_extension set extversion = '0.8.2' where extname = 'vector'")
    found = cli("status", "--dsn", database.dsn("app_reader"), "--json", code=1).json
    assert (found["unforced"], found["vector_supported"]) == (["pgrag_data.chunk"], False)
    said = cli("status", "--dsn", database.dsn("app_reader"), code=1).out
    assert "NOT forced on: pgrag_data.chunk" in said
    assert "0.8.2, older than 0.8.4, allowed by pgrag.allow_old_pgvector" in said


# -- doctor --------------------------------------------------------------------------------------------------


@pytest.mark.contract("L3")
def test_doctor_says_what_is_wrong_and_what_to_do(cli: Cli, database: Database) -> None:
    database.put_tenant("acme")
    dsn = ("--dsn", database.dsn("app_operator"))

    def wrong(code: int, *more: str) -> tuple[set[tuple[str, str]], Any]:
        said = cli("doctor", *dsn, "--json", *more, code=code).json
        about_the_server = ("server_version", "vector")
        return {(one["severity"], one["check"]) for one in said["findings"] if one["check"] not in about_the_server}, said

    with database.superuser() as superuser:  # a supported pgvector, whatever the server's
        superuser.execute("update pg_extension set extversion = '0.8.4' where extname = 'vector'")
        found, said = wrong(0)
        assert found == set() and said["errors"] == 0 and "policies" in said["passed"]
        superuser.execute("update pgrag_private.signing_key set created_at = now() - interval '2 years'")
        assert wrong(0)[0] == {("warning", "signing_keys")}
        assert wrong(1, "--strict")[1]["warnings"] >= 1
        superuser.execute("alter table pgrag_data.chunk no force row level security")
        found, said = wrong(1)
        assert found == {("error", "row_security"), ("warning", "signing_keys")}
        assert said["findings"][0] == {
            "check": "row_security", "severity": "error", "object": "pgrag_data.chunk", "finding": "row-level security is not forced",
            "remedy": "alter table pgrag_data.chunk force row level security;",
        }  # fmt: skip
        people = cli("doctor", *dsn, code=1).out
        assert people.startswith("error   row_security  pgrag_data.chunk\n        row-level security is not forced\n        alter table pgrag_data.chunk force")
        assert re.search(r"^1 error, \d warnings?; \d+ checks found nothing\n\Z", people, re.MULTILINE)
    refused = cli("doctor", "--dsn", database.dsn("app_reader"), "--json", code=1).error
    assert refused["code"] == "42501" and "doctor" in refused["hint"]


def test_sql_prints_the_scripts(cli: Cli) -> None:
    assert cli("sql").out == _sql.install_script()
    assert cli("sql", "--upgrade").out == _sql.upgrade_script()
    assert cli("sql", "--uninstall").out == _sql.uninstall_script()
    assert "ask for one of them" in cli("sql", "--upgrade", "--uninstall", code=2).err
    assert cli("sql", "--json").json == {"version": __version__, "output": None, "script": _sql.install_script()}
    assert cli("sql", "--output", "install.sql").out == "wrote install.sql\n"
    assert Path("install.sql").read_text(encoding="utf-8") == _sql.install_script()
    assert "cannot be written" in cli("sql", "--output", "no/such/folder.sql", code=2).err


# -- space ---------------------------------------------------------------------------------------------------


SPACE = ("status", "build", "fill", "switch", "retire")


def _vectors(request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    data = [{"index": n, "embedding": [len(text), text.count("e"), 1]} for n, text in enumerate(request["input"])]
    return 200, {}, json.dumps({"model": request["model"], "data": data}).encode()


@pytest.fixture
def encoder() -> Iterator[Endpoint]:
    """An embeddings endpoint of a model with three dimensions."""

    endpoint = Endpoint(_vectors)
    yield endpoint
    endpoint.close()


@pytest.mark.parametrize("command", SPACE)
def test_the_help_of_space_teaches(cli: Cli, command: str) -> None:
    said = cli("space", command, "--help").out
    assert "--json" in said and "$ pgrag space " in said and not CONTROL.search(said)
    parsed = get_command(app).commands["space"].commands
    assert set(parsed) == set(SPACE)
    known = {option for parameter in parsed[command].params for option in parameter.opts}
    (example,) = re.findall(r"\$ pgrag space (.*)", parsed[command].help)
    assert example.split()[0] == command and {one for one in example.split() if one.startswith("--")} <= known
    assert "Usage" in cli("space", code=2).err + cli("--help").out


@pytest.mark.contract("E2")
def test_the_encoder_is_changed(write: Cli, cli: Cli, database: Database, folder: Path, encoder: Endpoint) -> None:
    pytest.importorskip("wordllama")
    from pgrag.embedders import load_embedder

    for number in range(6):
        (folder / f"more-{number}.md").write_text(f"---\nreaders: [everyone]\n---\n# More\n\nPage {number}.\n")

    def operate(*arguments: object, **options: Any) -> Answer:
        return cli("space", *arguments, "--tenant", "a", "--dsn", database.dsn("app_operator"), **options)

    assert operate("status").out.startswith("no embedding space")
    with database.role("operator") as connection, pgrag.operator(connection) as operator:
        operator.put_space("a", load_embedder("wordllama").space)
    assert _counts(write("ingest", folder, "--embedder", "wordllama", "--json").json) == (8, 0, 0, 1)

    # The space of another model is registered and begun; each can be said again.
    options = {"model": "m", "dimension": 3, "processor": "judge", "retries": 0}
    following = {"PGRAG_NEXT_EMBEDDER": f"http:{encoder.url}", "PGRAG_NEXT_EMBEDDER_OPTIONS": json.dumps(options)}
    assert operate("build", "--json", code=2).error["hint"].startswith("--next-embedder")
    assert operate("build", "m-half", "--storage", "half", "--json", code=2).error["code"] is None
    assert operate("build", "m-half", "--json", code=1).error["code"] == "RG401"
    begun = operate("build", "m-half", "--storage", "half", "--json", **following).json
    assert begun == {"tenant": "a", "space": "m-half", "changed": True}
    assert "already" in operate("build", "m-half").out
    assert operate("build", "m-half", "--json", **following, code=1).error["code"] == "RG407"  # of another storage
    found = {one["space"]: one for one in operate("status", "--json").json}
    assert found["m-half"] == {
        **{"space": "m-half", "state": "next", "model": "m", "dimension": 3, "storage": "half"},
        **{"documents": 0, "chunks": 0, "missing": 8},
    }
    assert re.search(r"m-half +next +m +3 +half +0 +0 +8", operate("status").out)
    assert operate("switch", "m-half", "--json", code=1).error["code"] == "RG416"

    # Filled; text goes only where the source allows it.
    assert "--next-embedder" in write("space", "fill", "--json", code=2).error["hint"]
    assert write("space", "fill", "--json", **following, code=1).error["code"] == "RG410" and encoder.requests == []
    with database.role("operator") as connection, pgrag.operator(connection) as operator:
        operator.put_source("a", "handbook", processors=["judge"])
    assert write("space", "fill", "--batch", "many", "--json", **following, code=1).error["code"] == "RG408"
    filled = write("space", "fill", "--batch", "5", "--json", **following).json
    assert filled == {"space": "m-half", "added": 8, "batches": 2, "finished": True}
    assert write("space", "fill", "--retained", "--batch", "5", "--json", **following).json["added"] == 1  # leave.md of 2024
    assert "0 embeddings were added in m-half; nothing" in write("space", "fill", **following).out
    (folder / "later.md").write_text("---\nreaders: [everyone]\n---\n# Later\n\nIn both spaces.\n")
    assert _counts(write("ingest", folder, "--embedder", "wordllama", "--json", **following).json) == (1, 8, 0, 1)
    assert [one["missing"] for one in operate("status", "--json").json] == [0, 0]

    # Asked by name before it is switched to, and without one after.
    reader = {"PGRAG_DSN": database.dsn("app_reader"), "PGRAG_TENANT": "a", "PGRAG_SUBJECT": "alice"}
    new = {**reader, "PGRAG_EMBEDDER": f"http:{encoder.url}", "PGRAG_EMBEDDER_OPTIONS": json.dumps(options)}
    asked = ("search", "Within 30 days", "--mode", "dense", "--json")
    assert cli(*asked, "--space", "m-half", **new).json["policy"]["space"] == "m-half"
    assert cli(*asked, code=1, **new).error["code"] == "RG305"
    assert operate("switch", "m-half").out == "m-half is the active one now\n"
    assert operate("switch", "m-half", "--json").json["changed"] is False
    assert cli(*asked, **new).json["policy"]["space"] == "m-half"
    assert cli("packet", *asked[1:], "--space", "wordllama-256", "--embedder", "wordllama", **reader).json["status"] == "evidence"
    assert write("space", "fill", "--active", "--json", **{**new, "PGRAG_DSN": database.dsn("app_writer")}).json["added"] == 0
    assert operate("retire", "m-half", "--json", code=1).error["code"] == "RG416"
    assert "is retired" in operate("retire", "wordllama-256").out and "already" in operate("retire", "wordllama-256").out
    assert operate("status", "--json").json[0]["missing"] is None
    for command in ("status", "switch m-half"):
        said = cli("space", *command.split(), "--tenant", "a", "--dsn", database.dsn("app_reader"), "--json", code=1)
        assert said.error["code"] == "42501" and "space" in said.error["hint"]


def test_a_fill_that_breaks_off_says_what_it_did(write: Cli, database: Database, folder: Path) -> None:
    endpoint = Endpoint(_vectors)
    env = {"PGRAG_EMBEDDER_OPTIONS": json.dumps({"model": "m", "dimension": 3, "processor": "judge", "retries": 0})}
    env |= {f"PGRAG_NEXT_{name.removeprefix('PGRAG_')}": value for name, value in env.items()}
    env |= {name: f"http:{endpoint.url}" for name in ("PGRAG_EMBEDDER", "PGRAG_NEXT_EMBEDDER")}
    half = EmbeddingSpace("half", "m", "unstated", 3, storage="half")
    try:
        with database.role("operator") as connection, pgrag.operator(connection) as operator:
            operator.put_source("a", "handbook", processors=["judge"])
            operator.put_space("a", replace(half, space="m", storage="float"))
            operator.put_space("a", half)
        assert _counts(write("ingest", folder, "--json", **env).json) == (2, 0, 0, 1)
        with database.role("operator") as connection, pgrag.operator(connection) as operator:
            operator.build_space("a", "half")
        before = len(endpoint.requests)
        endpoint.script = [*[_vectors] * (before + 1), status(500), _vectors]
        broken = write("space", "fill", "--batch", "1", "--json", **env, code=1)
        assert broken.json == {"space": "half", "added": 1, "batches": 1, "finished": False}
        assert json.loads(broken.err)["error"]["code"] == "RG413"
        said = write("space", "fill", "--batch", "1", **env).out
        assert said == "1 embeddings were added in half; nothing of the source is missing\n"
    finally:
        endpoint.close()


# -- maintain, calibrate, index ------------------------------------------------------------------------------


@pytest.fixture
def large(database: Database) -> Database:
    """Tenant a with an access list that deserves a block."""
    database.put_tenant("a")
    database.put_principals("a", users=["alice"])
    database.put_many("a", "large.md")
    return database


@pytest.fixture
def keep(cli: Cli, large: Database) -> Cli:
    """The command line as an operator."""
    return lambda *arguments, **options: cli(*arguments, "--dsn", large.dsn("app_operator"), **options)


def _steps(said: str) -> list[dict[str, Any]]:
    return [json.loads(one) for one in said.splitlines()]


def test_maintain_goes_on_until_nothing_is_left(keep: Cli) -> None:
    assert [(one["class"], one["state"], one["loose"]) for one in keep("index", "--json").json] == [("list 2", "none", 1600)]
    (first,) = _steps(keep("maintain", "--once", "--json").out)
    assert (first["action"], first["remaining"]) == ("create", True)
    steps = _steps(keep("maintain", "--json", "--memory", "64MB", "--workers", "0").out)
    actions = [one["action"] for one in steps]
    assert actions[0] == "copy" and actions[-2:] == ["index", "idle"] and set(actions) == {"copy", "index", "idle"}
    assert sum(one["rows"] for one in steps if one["action"] == "copy") == 1600
    assert all(set(one) == {"action", "block_id", "rows", "remaining", "note", "seconds"} for one in steps)
    assert keep("maintain").out == "idle    nothing left to do\n"
    (block,) = keep("index", "--json").json
    assert (block["tenant"], block["space"], block["state"]) == ("a", "toy", "live")
    assert (block["vectors"], block["loose"], block["retired"]) == (1600, 0, 0) and block["bytes"] > 0
    assert re.search(r"a +toy +list 2 +live +1600 +1600 +0 +0 +\d", keep("index").out)
    costs = {one["part"]: one for one in keep("calibrate", "--json").json}
    assert costs["vector"]["measured_at"] and costs["block"]["measured_at"] is None  # no other list to take a question of
    assert re.search(r"block +[\d.]+ +as shipped", keep("calibrate").out)


def test_what_a_step_says_to_people(keep: Cli, cli: Cli, large: Database) -> None:
    said = keep("maintain", "--memory", "1MB", "--workers", "0").out
    assert re.search(r"^create +block \d+ +1600 rows +\d+\.\d s$", said, re.MULTILINE)
    assert re.search(r"^index +block \d+ .* s  built on disk for want of memory: .* '2 MB'", said, re.MULTILINE)
    assert said.endswith("idle    nothing left to do\n")
    with large.writer("a", "handbook") as writer:
        writer.execute("select pgrag.delete_document('large.md')")
    gone = [one["action"] for one in _steps(keep("maintain", "--keep", "0", "--json").out)]
    assert gone == ["retire", "drop", "idle"]
    assert keep("index").out.startswith("no blocks")


def test_settings_that_maintain_cannot_have(keep: Cli, cli: Cli, large: Database) -> None:
    error = keep("maintain", "--memory", "much", "--json", code=2).error
    assert "maintenance_work_mem" in error["message"] and error["hint"]
    assert "contradict" in keep("maintain", "--once", "--every", "5", "--json", code=2).error["message"]
    assert keep("maintain", "--workers", "-1", code=2).out == ""
    for command in ("maintain", "calibrate", "index"):
        assert cli(command, "--dsn", large.dsn("app_reader"), "--json", code=1).error["code"] == "42501"


def _on_create_index(database: Database, body: str) -> None:
    with database.superuser() as superuser:
        superuser.execute(
            f"create or replace function public.upset() returns event_trigger language plpgsql as 'begin {body} end'"
        )
        superuser.execute("create event trigger upset on ddl_command_start when tag in ('CREATE INDEX') execute function public.upset()")


def test_an_index_that_cannot_be_built_is_explained_and_tried_again(keep: Cli, large: Database) -> None:
    _on_create_index(large, "raise exception using errcode = ''disk_full'', message = ''no space left'';")
    done = keep("maintain", code=1)
    assert re.findall(r"^\w+", done.out, re.MULTILINE)[:1] == ["create"]
    assert done.err.startswith("error: RG113 the index of a block could not be built: no space left\n")
    assert "hint: Make room on disk" in done.err
    again = keep("maintain", "--json", code=1)  # from where it was
    assert again.out == "" and json.loads(again.err)["error"]["code"] == "RG113"
    with large.superuser() as superuser:
        superuser.execute("drop event trigger upset")
    assert [one["action"] for one in _steps(keep("maintain", "--json").out)] == ["index", "idle"]


# -- Processes -------------------------------------------------------------------------------------------------


def _process(
    *arguments: str, stdin: Any = None, stdout: Any = subprocess.PIPE, closed: Sequence[int] = (), **env: str
) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PGRAG_")}
    root = str(Path(__file__).resolve().parents[2])

    def begin() -> None:
        # A job in the background of a shell inherits that SIGINT is ignored, and so would its children.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for descriptor in closed:
            os.close(descriptor)

    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "pgrag", *arguments],
        env={**clean, **SIGNER, "PYTHONPATH": root, **env},
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=begin,
    )


def test_a_pipe_that_closes_is_no_news(cli: Cli) -> None:
    with _process("sql") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [("sql",), ("token", "--tenant", "a", "--subject", "b"), ("token", "--tenant", "a", "--subject", "b", "--json")])
def test_a_full_disk_is_an_error_with_a_name(cli: Cli, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full, _process(*arguments, stdout=full) as process:
        _, err = process.communicate()
    assert process.returncode == 1 and "the output cannot be written: No space left on device" in err
    assert "Traceback" not in err and ("--json" not in arguments or json.loads(err)["error"])


def test_output_needs_no_utf_8(cli: Cli, two_tenants: Database) -> None:
    settings = ("--dsn", two_tenants.dsn("app_reader"), "--tenant", "a", "--subject", "alice")
    with _process("search", "refund window", *settings, PYTHONIOENCODING="ascii") as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "30 days" in out
    assert out.isascii()


@pytest.mark.parametrize("closed", [(1,), (1, 2), (0, 1, 2)])
def test_closed_streams_are_no_news(cli: Cli, closed: tuple[int, ...]) -> None:
    with _process("token", "--tenant", "a", "--subject", "b", closed=closed) as process:
        assert process.communicate() == ("", "") and process.returncode == 0


def test_a_script_is_the_same_in_any_locale(cli: Cli) -> None:
    with _process("sql", PYTHONIOENCODING="ascii") as process:
        assert process.stdout is not None
        assert process.stdout.buffer.read() == _sql.install_script().encode()  # type: ignore[attr-defined]


def _migrate(*arguments: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "pgrag.migrations", *arguments]
    root = str(Path(__file__).resolve().parents[2])
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": root, **env}, capture_output=True, check=False)


def test_migrations_say_what_is_wrong_and_no_password(empty: Database) -> None:
    with empty.superuser() as superuser:
        superuser.execute("drop extension vector")
    for dsn, fact in (
        (empty.dsn("pgrag_test_installer"), "error: RG101 "),
        ("host=/nowhere password=hunter2", "error: connection is bad: "),
        ("postgres//app:hunter2@h/x", "error: PGRAG_DSN is not a connection string"),
        ("host=db..internal password=hunter2", "error: PGRAG_DSN is not a connection string"),
    ):
        done = _migrate("upgrade", "head", PGRAG_DSN=dsn)
        said = (done.stdout + done.stderr).decode()
        assert done.returncode == 1 and fact in said, said
        assert "Traceback" not in said and "hunter2" not in said


def test_a_script_of_migrations_is_the_same_in_any_locale() -> None:
    done = _migrate("upgrade", "head", "--sql", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "außer" in done.stdout.decode()


def _sleeping(database: Database) -> bool:
    with database.superuser() as superuser:
        query = "select exists (select from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database())"
        return bool(superuser.execute(query).fetchone()[0])


def test_ctrl_c_waits_for_the_step_and_a_second_one_does_not(cli: Cli, large: Database) -> None:
    dsn = ("--dsn", large.dsn("app_operator"), "--json")
    _on_create_index(large, "perform pg_sleep(60);")
    with _process("maintain", *dsn) as process:
        deadline = time.monotonic() + 30
        while not _sleeping(large) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None and _sleeping(large)  # it finishes its step
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130 and json.loads(err)["error"]["message"] == "interrupted"
    assert [one["action"] for one in _steps(out)] == ["create", "copy", "copy"]
    with large.superuser() as superuser:
        superuser.execute("drop event trigger upset")
    _on_create_index(large, "perform pg_sleep(0.5);")
    with _process("maintain", *dsn, "--every", "3600") as process:
        deadline = time.monotonic() + 30
        while not _sleeping(large) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert [one["action"] for one in _steps(out)] == ["index"]  # from where it was, and no further


def test_maintain_every_so_often(cli: Cli, large: Database) -> None:
    with _process("maintain", "--dsn", large.dsn("app_operator"), "--json", "--every", "0.1") as process:
        assert process.stdout is not None
        actions = [json.loads(process.stdout.readline())["action"] for _ in range(6)]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert actions[-2:] == ["idle", "idle"], actions
    assert process.returncode == 130, err


def test_what_psycopg_warns_of_is_no_output() -> None:
    """Interrupted within a statement it warns that a rollback failed; without a handler Python would write that before the command's JSON."""
    code = 'import logging; {}; logging.getLogger("psycopg").warning("error ignored in rollback")'
    for imported, said in (("import pgrag.cli", ""), ("pass", "error ignored in rollback\n")):
        done = subprocess.run([sys.executable, "-c", code.format(imported)], capture_output=True, text=True, timeout=60, check=True)
        assert done.stderr == said


def test_ctrl_c_leaves_whole_documents_and_says_which(cli: Cli, database: Database, tmp_path: Path) -> None:
    database.put_tenant("a", space=None)
    for number in range(3000):
        (tmp_path / f"page-{number:04}.md").write_text(f"# Page {number}\n\nText.\n\n## Part\n\nMore text.\n")
    settings = ("--dsn", database.dsn("app_writer"), "--tenant", "a", "--subject", "crawler", "--source", "handbook")
    count = "select count(*), count(active_revision_id) from pgrag_data.document"
    with _process("ingest", str(tmp_path), *settings, "--json") as process, database.superuser() as superuser:
        deadline = time.monotonic() + 60
        while superuser.execute(count).fetchone()[0] < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        documents, active = superuser.execute(count).fetchone()
    assert process.returncode == 130, err
    done = json.loads(out)
    assert json.loads(err)["error"]["message"] == "interrupted"
    assert done["finished"] is False
    assert 5 <= done["created"] <= documents == active < 3000
    assert documents - done["created"] <= 1  # one may have been committed and not reported
