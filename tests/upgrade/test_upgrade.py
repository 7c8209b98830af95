"""A database of the version before, with rows, upgraded, is this version's: as a dump, in its rows, in what it answers."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgrag import __version__, _sql, migrations
from tests.support import PASSWORD, Database
from tests.upgrade.cluster import (
    AS_DOCUMENTED,
    BEFORE,
    DIST,
    INSTALLER,
    OLD_PGVECTOR,
    PREPARE,
    UNINSTALL,
    UPGRADE,
    Cluster,
)
from tests.upgrade.test_alembic import HOSTILE, stamp
from tests.upgrade.test_dist import check, copy
from tests.upgrade.test_restore import QUESTIONS, READERS, dump, fill, restore, rows

PREVIOUS = _sql.previous_version()
# Columns that the upgrade writes anew, in rows that were there: table: columns. Every other one is as it was.
REWRITTEN: dict[str, set[str]] = {
    "pgrag_alembic_version": {"version_num"},
}
LANGUAGES = {
    "zh": ("退款政策.md", ["购买后三十天内可以退款。", "礼品卡不能退款。"], "退款"),
    "ja": ("返金.md", ["購入後三十日以内に返金できます。"], "返金"),
    "de": ("erstattung.md", ["Rückerstattungen binnen dreißig Tagen. ", "Gutscheine nie."], "Rückerstattung"),
    "ar": ("استرداد.md", ["يمكن استرداد المبلغ خلال ثلاثين يوما."], "استرداد"),
    "xx": ("other.md", ["Zwrot pieniędzy w ciągu 30 dni, PAY-402."], "PAY-402"),
}  # fmt: skip


def furnish(cluster: Cluster, database: str = "a") -> Database:
    """Rows of every kind and language, written with the functions of the version that is there."""
    made = cluster.furnish(database)
    fill(made)
    with made.writer("a", "wiki") as writer:
        for n, (language, (document, texts, _)) in enumerate(LANGUAGES.items()):
            vectors = [[1, n, m] for m in range(len(texts))]
            made.put_document(writer, document, texts, language=language, vectors=vectors, revision="v1", tags=[language])
    return made


def before(cluster: Cluster, database: str = "a") -> Database:
    """The version before, installed as it was released, with rows."""
    cluster.create(database)
    cluster.install(database, BEFORE)
    return furnish(cluster, database)


def everything(cluster: Cluster, database: str = "a") -> tuple[Any, ...]:
    return (*cluster.state(database), cluster.memberships(), stamp(cluster, database))


def answers(database: Database) -> list[Any]:
    """What every reader is answered; all of it, but for times, and digests that are keyed by database."""
    found: list[Any] = []
    questions = QUESTIONS + [
        {"question": question, "mode": "hybrid", "embedding": [1, 2, 0.5], "space": "toy", "filter": {"language": language}}
        for language, (_, _, question) in LANGUAGES.items()
    ]  # fmt: skip
    for tenant, subject in READERS:
        with database.reader(tenant, subject) as reader:
            for question in questions:
                for function in ("search_json", "packet_json"):
                    answer = reader.execute(f"select pgrag.{function}(%s)", (json.dumps(question),)).fetchone()[0]
                    for keyed in ("issued_at", "seal", "access_state", "corpus_state"):
                        answer.pop(keyed, None)
                    for hit in answer.get("hits", answer.get("excerpts")):
                        hit.pop("ingested_at")
                    found.append(answer)
    return found


# ---- the ways of upgrading -------------------------------------------------------------------------------------


def by_psql(cluster: Cluster) -> None:
    cluster.install("a", UPGRADE)


def by_psql_as_a_superuser(cluster: Cluster) -> None:
    cluster.install("a", UPGRADE, user="")


def by_psql_in_an_odd_session(cluster: Cluster) -> None:
    """Settings that would show in definitions, comments or memberships, and a function that would be found first."""
    with cluster.superuser("a") as superuser:
        superuser.execute(
            "create schema evil; create function evil.sha256(bytea) returns bytea return $1; grant usage on schema evil to public"
        )
    cluster.install("a", UPGRADE, options=HOSTILE, PGCLIENTENCODING="LATIN1")
    with cluster.superuser("a") as superuser:
        superuser.execute("drop schema evil cascade")


def by_python(cluster: Cluster) -> None:
    with psycopg.connect(cluster.dsn("a")) as installer:
        installer.execute(_sql.upgrade_script())


def by_alembic(cluster: Cluster) -> None:
    migrations.upgrade(cluster.dsn("a"))


def by_alembic_offline(cluster: Cluster) -> None:
    script = migrations.script(f"{PREVIOUS}:head")
    assert f"pgrag {PREVIOUS}: installation" not in script
    done = cluster.psql("a", script, flags=("-X", "-v", "ON_ERROR_STOP=1"))
    assert done.returncode == 0, done.stderr


WAYS = [by_psql, by_psql_as_a_superuser, by_psql_in_an_odd_session, by_python, by_alembic, by_alembic_offline]


def today(cluster: Cluster, database: str = "b") -> Database:
    """This version, installed, with the same rows."""
    cluster.create(database)
    cluster.install(database)
    return furnish(cluster, database)


@pytest.fixture(scope="module")
def fresh(spare_server: Cluster) -> tuple[Any, ...]:
    """What every upgrade is to give."""
    spare_server.clean()
    spare_server.create_role(INSTALLER)
    today(spare_server)
    return everything(spare_server, "b")


@pytest.mark.contract("L1")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_of_upgrading_gives_the_fresh_database(
    cluster: Cluster, fresh: tuple[Any, ...], way: Callable[[Cluster], None]
) -> None:
    before(cluster)
    old = everything(cluster)
    assert old != fresh and stamp(cluster) == [(PREVIOUS,)]  # control: there is something to do
    way(cluster)
    for found, expected in zip(everything(cluster), fresh, strict=True):
        assert found == expected
    # And so is what a dump of it restores; and it can be taken out.
    restore(cluster, dump(cluster, "a"), "c")
    assert everything(cluster, "c") == fresh
    assert cluster.psql("a", UNINSTALL).returncode == 0


@pytest.mark.contract("L1")
def test_alembic_from_nothing_goes_through_every_version(cluster: Cluster, fresh: tuple[Any, ...]) -> None:
    cluster.create("a")
    migrations.upgrade(cluster.dsn("a"), PREVIOUS)
    assert stamp(cluster) == [(PREVIOUS,)]
    furnish(cluster)
    migrations.upgrade(cluster.dsn("a"))
    assert everything(cluster) == fresh


@pytest.mark.contract("L1", "L4")
def test_a_restored_database_upgrades_too(cluster: Cluster, fresh: tuple[Any, ...]) -> None:
    before(cluster, "b")
    restore(cluster, dump(cluster, "b"), "a")
    cluster.install("a", UPGRADE)
    assert everything(cluster) == fresh


@pytest.mark.contract("L1", "L4")
def test_rows_are_kept_and_answer_as_if_written_today(cluster: Cluster) -> None:
    database, other = before(cluster), today(cluster)
    columns = table_columns(cluster)
    old = digests(cluster, columns)
    cluster.install("a", UPGRADE)
    new = digests(cluster, columns)
    assert new == old
    found, expected = answers(database), answers(other)
    assert found == expected
    # Control: the questions find something, in Chinese too.
    assert sum(answer["status"] == "evidence" for answer in found) > 20
    assert any("退款" in hit["text"] for answer in found for hit in answer.get("hits", []))
    # It goes on: what a staged revision was then is activated now, and new rows come after the old ones.
    with database.writer("a", "handbook") as writer:
        (revision,) = writer.execute("select revision from pgrag.list_revisions('staged.md')").fetchone()
        writer.execute("select pgrag.activate('staged.md', %s)", (revision,))
        database.put_document(writer, "new.md", "A new refund rule.", vectors=[[1, 0, 0]])
    assert rows(cluster, "a")["pgrag_data.document"][0] == rows(cluster, "b")["pgrag_data.document"][0] + 1


@pytest.mark.contract("L1", "E2")
def test_what_was_there_before_takes_another_space(cluster: Cluster) -> None:
    """Revisions of the version before are known to be complete in their space, and want one that is built beside it."""
    database = before(cluster)
    cluster.install("a", UPGRADE)
    with database.role("operator") as operator:
        operator.execute("select pgrag.put_space('a', 'half', 'm', '2', 4, p_storage => 'half', p_normalisation => 'none'), pgrag.build_space('a', 'half')")
        states = {space: (state, documents, missing) for space, state, documents, _, missing in operator.execute("select * from pgrag.space_status('a')")}
    assert states["toy"][0] == "active" and states["toy"][2] == 0 and states["half"] == ("next", 0, states["toy"][1]) and states["toy"][1] > 5
    missing = "select document, revision, chunk_no from pgrag.missing_embeddings('half', 2000, true)"
    with database.role("operator") as operator:
        sources = [source for _, source, *_ in operator.execute("select 'a', s.source from pgrag.list_sources('a') s")]
    for source in sources:
        with database.writer("a", source) as writer:
            for document, revision, number in writer.execute(missing).fetchall():
                writer.execute("select pgrag.add_embeddings(%s, %s, 'half', %s, '{\"[1,2,3,4]\"}')", (document, revision, number))
            assert writer.execute(missing).fetchall() == []
    with database.role("operator") as operator:
        assert operator.execute("select pgrag.switch_space('a', 'half')").fetchone() == (True,)
    question = {"question": "退款", "mode": "dense", "space": "half", "embedding": [1, 2, 3, 4], "threshold": 0, "k": 100}
    with database.reader("a", "alice") as reader:
        found = reader.execute("select pgrag.search_json(%s)", (json.dumps(question),)).fetchone()[0]
    assert found["status"] == "evidence" and "退款政策.md" in {hit["document"] for hit in found["hits"]}
    restore(cluster, dump(cluster, "a"), "c")
    with cluster.superuser("c") as superuser:  # and a dump has both spaces
        assert superuser.execute("select count(embedding) > 0, count(half) > 0 from pgrag_data.chunk_vec").fetchone() == (True, True)


def table_columns(cluster: Cluster) -> dict[str, list[str]]:
    with cluster.superuser("a") as superuser:
        return dict(superuser.execute("""
            select c.oid::regclass::text, array_agg(a.attname::text order by a.attnum)
              from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
             where c.relkind = 'r' and c.relnamespace::regnamespace::text in ('pgrag_data', 'pgrag_private', 'public') group by 1""").fetchall())  # fmt: skip


def digests(cluster: Cluster, columns: dict[str, list[str]]) -> dict[str, tuple[int, str]]:
    """Count and digest of each table, in the columns that it had, but for those that the upgrade writes anew."""
    with cluster.superuser("a") as superuser:
        assert len(columns) > 16
        return {
            table: superuser.execute(
                f"select count(*), md5(string_agg(r::text, ' ' order by r::text)) from (select {', '.join(kept) or '1'} from {table}) r"
            ).fetchone()
            for table, names in columns.items()
            for kept in [[name for name in names if name not in REWRITTEN.get(table, ())]]
        }


# ---- what may be left behind -----------------------------------------------------------------------------------

LEFTOVERS = {  # what somebody, or an older version, left in the database
    "an old overload": "create function pgrag_private.scope(integer) returns integer return 1; alter function pgrag_private.scope(integer) owner to pgrag_engine",
    "a function that is no more": "create function pgrag.peek() returns setof pgrag_data.chunk language sql security definer as 'select * from pgrag_data.chunk';"
    "alter function pgrag.peek owner to pgrag_engine; grant execute on function pgrag.peek to public",
    "a function that another uses": "create function pgrag_private.one() returns integer return 1; create function pgrag_private.two() returns integer return pgrag_private.one();"
    "alter function pgrag_private.one owner to pgrag_engine; alter function pgrag_private.two owner to pgrag_engine",
    "a definition": "create or replace function pgrag_private.default_threshold(p_mode text) returns double precision language sql return 0",
    "a volatility": "alter function pgrag.search_json volatile",
    "the invoker's rights": "alter function pgrag.search_json security invoker",
    "a setting": "alter function pgrag.search_json reset row_security",
    "a comment": "comment on function pgrag.search is 'other words'",
    "a permissive policy": "create policy left_behind on pgrag_data.chunk for select to public using (true)",
    "an altered policy": "alter policy pgrag_chunk_select on pgrag_data.chunk using (true)",
    "no policy": "drop policy pgrag_chunk_engine on pgrag_data.chunk",
    "a view's options": "alter view pgrag.chunks reset (security_barrier)",
    "a grant to PUBLIC": "grant execute on function pgrag_private.internal_mac to public",
    "a grant to a role of ours": "grant select on pgrag_data.chunk to pgrag_reader",
    "a grant to a role of yours": "grant execute on function pgrag.search_json to app_reader; grant select on pgrag.chunks to app_writer",
    "a grant on a column": "grant select (text), update (text) on pgrag_data.chunk to pgrag_reader",
    "a grant on a sequence": "grant usage on pgrag_data.document_document_id_seq to pgrag_writer",
    "a grant on a schema": "grant usage, create on schema pgrag_private to pgrag_reader",
    "a grant on a type": "grant usage on type pgrag_private.principal to public",
    "a grant on the stamp": "grant insert on public.pgrag_alembic_version to pgrag_engine",
    "a grant passed on": "grant usage on schema pgrag_data to app_reader; grant select on pgrag_data.chunk to app_reader with grant option;"
    "set role app_reader; grant select on pgrag_data.chunk to app_writer; reset role",
    "a grant withdrawn": "revoke execute on function pgrag.search_json from pgrag_reader",
    "default privileges": "alter default privileges for role pgrag_engine grant execute on functions to public",
    "TEMP": "grant temporary on database a to public",
}  # fmt: skip
# Parts of the script without which these would stay.
PARTS = {
    "where o.oid not in (": {"an old overload", "a function that is no more", "a function that another uses"},
    "execute v_policy;": {"a permissive policy", "an altered policy"},
    "execute v_revoke;": {name for name in LEFTOVERS if name.startswith("a grant ")} - {"a grant on the stamp", "a grant withdrawn"},
}  # fmt: skip


@pytest.mark.contract("L1", "A8")
def test_what_was_left_behind_is_gone(cluster: Cluster, fresh: tuple[Any, ...]) -> None:
    before(cluster)
    for leftover in LEFTOVERS.values():
        old = everything(cluster)
        with cluster.superuser("a") as superuser:
            superuser.execute(leftover)
        assert everything(cluster) != old, leftover  # control
    cluster.install("a", UPGRADE)
    for found, expected in zip(everything(cluster), fresh, strict=True):
        assert found == expected


@pytest.mark.contract("L1", "A8")
@pytest.mark.parametrize("part", PARTS)
def test_without_its_part_of_the_script_it_would_stay(cluster: Cluster, fresh: tuple[Any, ...], part: str) -> None:
    """Control: the upgrade without that part fails, or gives another database, for each thing that the part is for."""
    script = UPGRADE.read_text(encoding="utf-8")
    assert script.count(part) == 1
    before(cluster)
    for name in PARTS[part]:
        with cluster.superuser("a") as superuser:
            superuser.execute("drop database if exists d")
            superuser.execute("create database d template a")
            superuser.execute("revoke temporary on database d from public; grant all on database d to dba")
        with cluster.superuser("d") as superuser:
            superuser.execute(LEFTOVERS[name])
        done = cluster.psql("d", script.replace(part, f"where false and {part[6:]}" if part.startswith("where ") else "null;"), user="")
        assert done.returncode != 0 or cluster.schema("d") != fresh[0], name


# ---- refusals --------------------------------------------------------------------------------------------------


def installed(cluster: Cluster, script: Any = BEFORE) -> None:
    cluster.create("a")
    cluster.install("a", script)


REFUSALS: dict[str, tuple[str, Callable[[Cluster], None], str, str]] = {  # code, making, breaking, user
    "an empty database": ("RG109", lambda cluster: cluster.create("a"), "", INSTALLER),
    "somebody else's schemas": ("RG109", lambda cluster: cluster.create("a"),
                                "create schema pgrag; create schema pgrag_data; create schema pgrag_private", INSTALLER),
    "this version": ("RG111", lambda cluster: installed(cluster, DIST), "", INSTALLER),
    "upgraded already": ("RG111", lambda cluster: (installed(cluster), cluster.install("a", UPGRADE)), "", INSTALLER),
    "a later version": ("RG111", installed, "update public.pgrag_alembic_version set version_num = '9.9.9'", INSTALLER),
    "two versions": ("RG111", installed, "insert into public.pgrag_alembic_version values ('9.9.9')", INSTALLER),
    "an empty stamp": ("RG111", installed, "delete from public.pgrag_alembic_version", INSTALLER),
    "no stamp": ("RG109", installed, "drop table public.pgrag_alembic_version", INSTALLER),
    "another role": ("RG104", installed, "create role other login createrole; alter role other password '{}'", "other"),
    "another owner of the database": ("RG104", installed, "alter database a owner to postgres", INSTALLER),
    "no right to the roles": ("RG104", installed, "revoke pgrag_engine from dba", INSTALLER),
}  # fmt: skip


@pytest.mark.contract("L1", "L2")
@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_has_a_code_and_a_hint_and_changes_nothing(cluster: Cluster, refusal: str) -> None:
    code, make, break_, user = REFUSALS[refusal]
    make(cluster)
    with cluster.superuser("a") as superuser:
        superuser.execute(break_.format(PASSWORD) or "select")
    old = cluster.state("a"), cluster.memberships()
    done = cluster.psql("a", UPGRADE, user=user)
    assert done.returncode == 3
    assert re.findall(r"ERROR:  (\w{5}):", done.stderr) == [code], done.stderr
    assert "HINT:" in done.stderr
    assert (cluster.state("a"), cluster.memberships()) == old


@pytest.mark.contract("L1", "L2")
def test_the_hint_for_another_installer_works(cluster: Cluster, fresh: tuple[Any, ...]) -> None:
    """The database has a new owner, who has the stamp too: one grant more, in the words of the hint."""
    before(cluster)
    cluster.create_role("second_dba")
    with cluster.superuser("a") as superuser:
        superuser.execute("alter database a owner to second_dba; alter table public.pgrag_alembic_version owner to second_dba")
    done = cluster.psql("a", UPGRADE, user="second_dba")
    hint = re.search(r"ERROR:  RG104:.*HINT:.*?: (grant .*?;)", done.stderr, re.DOTALL)
    assert hint, done.stderr
    with cluster.connect("a") as installer:
        installer.execute(hint[1])
    cluster.install("a", UPGRADE, user="second_dba")
    assert cluster.schema("a").replace("second_dba", INSTALLER) == fresh[0]
    assert {row for row in cluster.memberships() if row[1] == "second_dba"} == {
        (f"pgrag_{role}", "second_dba", True, False, False) for role in ("owner", "engine", "viewer")
    }


@pytest.mark.contract("L1", "L4")
@pytest.mark.parametrize("user", [INSTALLER, ""], ids=["the installer", "a superuser"])
@pytest.mark.parametrize(
    "flags, code",
    [(("-X", "-v", "ON_ERROR_STOP=1"), "25P01"), (("-X",), "RG110")],
    ids=["no -1", "no flags at all"],
)
def test_outside_of_a_transaction_nothing_changes(
    cluster: Cluster, user: str, flags: tuple[str, ...], code: str
) -> None:
    """Not even by a psql that goes on after each error, and not by a superuser."""
    before(cluster)
    old, contents = everything(cluster), rows(cluster, "a")
    done = cluster.psql("a", UPGRADE, flags=flags, user=user)
    assert code in re.findall(r"ERROR:  (\w{5}):", done.stderr)
    assert (everything(cluster), rows(cluster, "a")) == (old, contents)
    if code == "RG110":  # control: without the second lock it would go on
        script = UPGRADE.read_text(encoding="utf-8").replace("set default_transaction_read_only = on;", "")
        cluster.psql("a", script, flags=flags, user=user)
        assert everything(cluster) != old


@pytest.mark.contract("L1", "L4")
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.parametrize(
    "fault",
    ["select 1/0;", "select pg_terminate_backend(pg_backend_pid());"],
    ids=["error", "lost connection"],
)
def test_a_failure_on_the_way_leaves_the_old_version(cluster: Cluster, share: float, fault: str) -> None:
    before(cluster)
    old, contents = everything(cluster), rows(cluster, "a")
    # Cut between two files, after that share of them.
    parts = re.split(r"^(?=-- (?:sql|migrations)/)", UPGRADE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    script = "".join(parts[: round(share * len(parts))]) + "\n" + fault + "\n"
    done = cluster.psql("a", script)
    assert done.returncode != 0 and "ERROR:  RG" not in done.stderr, done.stderr
    assert (everything(cluster), rows(cluster, "a")) == (old, contents)
    cluster.install("a", UPGRADE)  # control: what failed was the fault


# ---- with others at work ---------------------------------------------------------------------------------------


@pytest.mark.contract("L1", "B4")
@pytest.mark.parametrize("who", ["a reader", "a reader who waits", "an operator", "a dump"])
def test_it_does_not_wait_for_long_and_then_nothing_has_changed(cluster: Cluster, who: str) -> None:
    database = before(cluster)
    old, contents = everything(cluster), rows(cluster, "a")
    with psycopg.connect(database.dsn()) as busy:
        busy.execute({
            "a reader": f"select pgrag.search_json('{{\"question\": \"refund\", \"mode\": \"lexical\"}}', '{database.token('a', 'alice')}')",
            "a reader who waits": f"select pgrag.authenticate('{database.token('a', 'alice')}')",
            "an operator": "select pgrag.list_sources('a')",
            "a dump": "lock table pgrag_data.acl_entry in access share mode",
        }[who])  # fmt: skip
        done = cluster.psql("a", UPGRADE, options=f"{OLD_PGVECTOR} -c lock_timeout=300ms")
        assert re.findall(r"ERROR:  (\w{5}):", done.stderr) == ["RG112"], done.stderr
        assert "waits no longer than 300ms" in done.stderr
        assert re.search(rf"DETAIL: .*\b{busy.info.backend_pid}\b", done.stderr)
        with pytest.raises(psycopg.Error) as caught:  # and so says Alembic
            migrations.upgrade(psycopg.conninfo.make_conninfo(cluster.dsn("a"), options="-c lock_timeout=300ms"))
        assert caught.value.sqlstate == "RG112"
        busy.rollback()
    assert (everything(cluster), rows(cluster, "a")) == (old, contents)
    cluster.install("a", UPGRADE)  # control


@pytest.mark.contract("L1")
def test_unless_told_otherwise_it_waits_five_seconds(cluster: Cluster) -> None:
    begin = UPGRADE.read_text(encoding="utf-8").split("-- The locks, all of them now")[0]
    before(cluster)
    for options, expected in (("", "5s"), ("-c lock_timeout=1min", "1min")):
        done = cluster.psql("a", begin + "show lock_timeout;", flags=(*AS_DOCUMENTED, "-t", "-A"), options=options)
        assert done.stdout.split()[-1] == expected


@pytest.mark.contract("L1", "B4")
def test_two_upgrades_at_once(cluster: Cluster, fresh: tuple[Any, ...]) -> None:
    """The second waits for the first, and then has nothing to do."""
    before(cluster)
    with psycopg.connect(cluster.dsn("a")) as first:
        first.execute(_sql.upgrade_script())
        said: list[Any] = []
        second = threading.Thread(target=lambda: said.append(cluster.psql("a", UPGRADE)))
        second.start()
        wait_for_a_lock(cluster)
    second.join()
    assert re.findall(r"ERROR:  (\w{5}):", said[0].stderr) == ["RG111"], said[0].stderr
    assert everything(cluster) == fresh


def wait_for_a_lock(cluster: Cluster, count: int = 1) -> None:
    with cluster.superuser("a") as superuser:
        for _ in range(500):
            if superuser.execute("select count(*) from pg_locks where not granted").fetchone() == (count,):
                return
            time.sleep(0.01)
    raise AssertionError("nobody waits")


@pytest.mark.contract("L1", "B4", "L4")
def test_sessions_go_on_and_whoever_comes_meanwhile_waits_and_is_answered(cluster: Cluster) -> None:
    """Connected before, with plans of their own; asking before, during and after. A call that is under way when the upgrade
    commits goes on in the old function, which may find that what it calls has changed: then it fails, and works when repeated."""
    database = before(cluster)
    search = "select pgrag.search_json(%s, %s)"
    request = json.dumps({"question": "refund within how many days?", "mode": "lexical"})
    token = database.token("a", "alice")
    prepared: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0}
    with (
        closing(psycopg.connect(database.dsn("app_reader"), **prepared)) as reader,
        closing(psycopg.connect(database.dsn("app_reader"), **prepared)) as other,
        closing(psycopg.connect(database.dsn("app_writer"))) as writer,
        closing(psycopg.connect(database.dsn("app_browser"))) as browser,
    ):
        def ask(connection: psycopg.Connection[Any] = reader) -> Any:
            return connection.execute(search, (request, token)).fetchone()[0]

        def browse() -> list[tuple[Any, ...]]:
            with browser.transaction():
                browser.execute("select pgrag.authenticate(%s)", (token,), prepare=True)
                return browser.execute("select document, text from pgrag.chunks order by 1, 2", prepare=True).fetchall()

        def write(document: str) -> None:
            with writer.transaction():
                writer.execute("select pgrag.authenticate(%s)", (database.token("a", "connector", "writer", source="wiki"),))
                database.put_document(writer, document, "Something else.", vectors=[[0, 0, 1]])

        def ask_again() -> None:
            for _ in range(2):
                try:
                    found.append(ask(other))
                    return
                except (psycopg.errors.UndefinedFunction, psycopg.errors.InternalError_) as error:
                    found.append(error)

        answer, seen, found = ask(), browse(), list[Any]()
        assert ask(other) == answer and len(answer["hits"]) > 1 and len(seen) > 3
        write("one.md")
        during = threading.Thread(target=ask_again)
        with psycopg.connect(cluster.dsn("a")) as installer:
            installer.execute(_sql.upgrade_script())
            during.start()
            wait_for_a_lock(cluster)
            assert not found  # control: it waits
        during.join()
        write("two.md")
        texts = [hit["text"] for hit in answer["hits"]]
        for later in (found[-1], ask(), ask(other)):
            assert [hit["text"] for hit in later["hits"]] == texts
        assert len(browse()) == len(seen) + 2
        assert reader.execute("select pgrag.version()").fetchone() == (__version__,)


@pytest.mark.contract("L2")
def test_the_other_database_of_the_cluster_stays_as_it_is(cluster: Cluster) -> None:
    """Roles are shared: an older version beside a newer one works, each upgraded in its turn."""
    for name in ("a", "b"):
        before(cluster, name)
    other = Database(cluster.server.superuser_dsn, "b")
    old, contents, said = everything(cluster, "b"), rows(cluster, "b"), answers(other)
    cluster.install("a", UPGRADE)
    assert (everything(cluster, "b"), rows(cluster, "b"), answers(other)) == (old, contents, said)
    cluster.install("b", UPGRADE)
    assert everything(cluster, "b") == everything(cluster, "a")


@pytest.mark.contract("L1")
def test_what_is_yours_and_built_on_it_stays(cluster: Cluster) -> None:
    """A view over a view of pgrag's, with grants of its own; a foreign key; a function in its schema."""
    before(cluster)
    with cluster.superuser("a") as superuser:
        superuser.execute("""
            create view public.mine as select document, text from pgrag.chunks; grant select on public.mine to app_reader;
            create table public.yours (tenant_id bigint references pgrag_data.tenant);
            create function pgrag_private.ours() returns integer security definer return 1""")
    cluster.install("a", UPGRADE)
    with cluster.superuser("a") as superuser:
        kept = superuser.execute("""
            select 'public.mine'::regclass::text, 'public.yours'::regclass::text, 'pgrag_private.ours'::regproc::text,
                   has_table_privilege('app_reader', 'public.mine', 'select')""").fetchone()
    assert kept == ("mine", "yours", "pgrag_private.ours", True)


# ---- prepared --------------------------------------------------------------------------------------------------

# Some versions have an index to build that is large enough to be built beforehand.
needs_preparation = pytest.mark.skipif(_sql.prepare_script() is None, reason="this version has nothing to prepare")
OUTSIDE = ("-X", "-v", "ON_ERROR_STOP=1")  # as its header says: an index is built concurrently, or in a transaction


def prepare(cluster: Cluster, **more: Any) -> Any:
    return cluster.psql("a", PREPARE, flags=OUTSIDE, **more)


def indexes(cluster: Cluster) -> dict[str, tuple[int, bool]]:
    """Of ours, where each one's data lie, and whether it is whole."""
    with cluster.superuser("a") as superuser:
        found = superuser.execute("""
            select c.relname, c.relfilenode, i.indisvalid from pg_index i join pg_class c on c.oid = i.indexrelid
             where c.relnamespace::regnamespace::text in ('pgrag_data', 'pgrag_private')""").fetchall()  # fmt: skip
    return {name: (node, valid) for name, node, valid in found}


@needs_preparation
@pytest.mark.contract("L1")
@pytest.mark.parametrize("user", [INSTALLER, ""], ids=["the installer", "a superuser"])
def test_a_prepared_database_is_used_as_before_and_upgrades_to_the_same(
    cluster: Cluster, fresh: tuple[Any, ...], user: str
) -> None:
    database = before(cluster)
    old, state, members = indexes(cluster), cluster.state("a")[1:], cluster.memberships()
    for _ in range(2):
        done = prepare(cluster, user=user)
        assert done.returncode == 0, done.stderr
    built = indexes(cluster)
    assert len(built) > len(old) and all(valid for _, valid in built.values())
    assert (cluster.state("a")[1:], cluster.memberships(), stamp(cluster)) == (state, members, [(PREVIOUS,)])
    with database.writer("a", "wiki") as writer:  # it is kept up, by who writes there now
        database.put_document(writer, "meanwhile.md", ["Something 退款 else."], vectors=[[0, 0, 1]])
    cluster.install("a", UPGRADE, user=user)
    assert everything(cluster) == fresh
    assert indexes(cluster).items() >= built.items()  # none was built again
    with cluster.superuser("a") as superuser:
        superuser.execute("set enable_seqscan = off")
        (found,) = superuser.execute("""
            select count(*) from pgrag_data.chunk_lex, (select tenant_id as id from pgrag_data.tenant where tenant = 'a') t
             where pgrag_private.lexeme_keys(tenant_id, tsvector_to_array(lexemes)) @> pgrag_private.lexeme_keys(t.id, array['退款'])""").fetchone()  # fmt: skip
    assert found == 3


@needs_preparation
@pytest.mark.contract("L1", "L4")
@pytest.mark.parametrize("again", [True, False], ids=["prepared again", "upgraded at once"])
def test_an_index_that_was_not_built_to_the_end_does_no_harm(
    cluster: Cluster, fresh: tuple[Any, ...], again: bool
) -> None:
    database = before(cluster)
    old = indexes(cluster)
    with psycopg.connect(database.dsn()) as busy:  # it is built after whoever is writing
        busy.execute("delete from pgrag_data.chunk_lex where false")
        assert prepare(cluster, options="-c statement_timeout=2s").returncode != 0
    ((name, (node, valid)),) = indexes(cluster).items() - old.items()
    assert not valid
    if again:
        done = prepare(cluster)
        assert done.returncode == 0, done.stderr
    cluster.install("a", UPGRADE)
    assert everything(cluster) == fresh
    assert indexes(cluster)[name] != (node, valid) and indexes(cluster)[name][1]


@needs_preparation
@pytest.mark.contract("L1", "L2")
@pytest.mark.parametrize("refusal", ["an empty database", "this version", "another role"])
def test_a_refusal_to_prepare_changes_nothing(cluster: Cluster, refusal: str) -> None:
    code, make, break_, user = REFUSALS[refusal]
    make(cluster)
    with cluster.superuser("a") as superuser:
        superuser.execute(break_.format(PASSWORD) or "select")
    old = cluster.state("a"), cluster.memberships()
    done = prepare(cluster, user=user)
    assert re.findall(r"ERROR:  (\w{5}):", done.stderr) == [code], done.stderr
    assert "HINT:" in done.stderr
    assert (cluster.state("a"), cluster.memberships()) == old


@needs_preparation
@pytest.mark.contract("L1")
def test_what_is_prepared_is_what_the_upgrade_makes() -> None:
    """The statements stand in both, word for word."""
    script = PREPARE.read_text(encoding="utf-8")
    made = re.findall(r"^create or replace function .*?;\n", script, re.MULTILINE | re.DOTALL)
    made += re.findall(r"^create index .*?;\n", script.replace(" concurrently", ""), re.MULTILINE | re.DOTALL)
    assert len(made) == 2
    for statement in made:
        assert statement in _sql.build_upgrade()


# ---- the next version ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def next_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which this version has changes of each kind, built: what those who change it can rely on."""
    root = tmp_path_factory.mktemp("next")
    copy(root)

    def edit(name: str, *changes: tuple[str, str]) -> None:
        """Replace once; of nothing: add at the end."""
        path = root / name
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for old, new in changes:
            assert old in text, (name, old)
            text = text.replace(old, new, 1) if old else text + new
        path.write_text(text, encoding="utf-8")

    # Functions: a signature and a result, of such as others call in SQL; one less, and more.
    edit("sql/functions/can_read.sql", ("text default null)", "text default null, p_more boolean default false)"))
    edit("sql/functions/private/finding.sql", ("p_message text) returns jsonb", "p_message text, p_level integer default 1) returns jsonb"))
    edit("sql/functions/private/check_name.sql", ("is_blank(p_text text)", "is_blank(p_words text)"), ("p_text !~ ", "p_words !~ "))
    edit("sql/99_grants.sql", ("pgrag.can_read(text, text, text)", "pgrag.can_read(text, text, text, boolean)"), (", pgrag.whoami(text)", ""))
    edit("sql/functions/private/note.sql", ("", """
create or replace function pgrag_private.note_key(p_tenant_id bigint, p_text text) returns bigint
language sql immutable parallel safe
return hashtextextended(p_text, p_tenant_id);
grant execute on function pgrag_private.note_key to pgrag_owner; -- who builds the index
create or replace function pgrag_private.noted(p_note pgrag_private.note, out noted boolean, out at timestamptz)
language plpgsql immutable parallel safe as $$ begin end $$;
"""))  # fmt: skip
    # Types: another, and one with another attribute.
    edit("sql/types.sql", ("", "create type pgrag_private.note as (\n  text text\n);\n"), ("expires_at bigint ", "expires_at bigint, note text "))
    # Tables: a column, a table, an index over a function. Policies: another, and another condition. A view: a column.
    contact, note = "contact text not null default ''", """
create table pgrag_data.note (
  tenant_id bigint not null,
  note_id   bigint generated always as identity,
  constraint note_pkey primary key (tenant_id, note_id)
);
alter table pgrag_data.note enable row level security, force row level security;
comment on table pgrag_data.note is 'Notes.';
"""  # fmt: skip
    edit("sql/tables/source.sql", ("  constraint ", f"  {contact},\n  constraint "))
    edit("sql/tables/note.sql", ("", note))
    edit(f"migrations/sql/{__version__}.sql", ("", f"{note}\nalter table pgrag_data.source add column {contact};\n"))
    edit("sql/note_index.sql", ("", "create index if not exists document_note on pgrag_data.document (pgrag_private.note_key(tenant_id, document));\n"))
    edit("sql/policies/engine.sql", ("", """
create policy pgrag_note_engine on pgrag_data.note for all to pgrag_engine using (true) with check (true);
grant select, insert on pgrag_data.note to pgrag_engine;
"""))  # fmt: skip
    edit("sql/policies/viewer.sql", ("  using (", "  using (contact = '' and "))
    edit("sql/views/documents.sql", ("r.metadata\n", "r.metadata, s.contact\n"))
    edit("sql/MANIFEST", ("functions/whoami.sql\n", ""), ("tables/internal_key.sql\n", "tables/internal_key.sql\ntables/note.sql\n"),
         ("types.sql\n", "types.sql\nfunctions/private/note.sql\n"),
         ("policies/viewer.sql\n", "note_index.sql\npolicies/viewer.sql\n"))  # fmt: skip
    done = check(root, write=True)
    assert done.returncode == 0, done.stderr
    return root / "dist"


@pytest.mark.contract("L1")
def test_changes_of_every_kind_arrive(cluster: Cluster, next_version: Path) -> None:
    cluster.create("b")
    cluster.install("b", next_version / DIST.name)
    furnish(cluster, "b")
    fresh = everything(cluster, "b")
    before(cluster)
    cluster.install("a", next_version / UPGRADE.name)
    for found, expected in zip(everything(cluster), fresh, strict=True):
        assert found == expected
    for part in ("p_more boolean", "p_level integer DEFAULT 1", "p_words", "note_key", "contact", "document_note", "pgrag_note_engine"):
        assert part in fresh[0], part  # control: the changes are there
    assert "CREATE FUNCTION pgrag.whoami(" not in fresh[0]


@pytest.mark.contract("L1")
def test_a_change_that_the_delta_forgets_is_seen(cluster: Cluster, next_version: Path) -> None:
    """Control: another default than in the table's file, a column that is not in it, and no column at all."""
    cluster.create("b")
    cluster.install("b", next_version / DIST.name)
    script = (next_version / UPGRADE.name).read_text(encoding="utf-8")
    added = "add column contact text not null default ''"
    for other in (added.replace("''", "'x'"), added + ", add column more text", "add column more text"):
        cluster.create("a")
        cluster.install("a", BEFORE)
        done = cluster.psql("a", script.replace(added, other))
        assert (done.returncode == 0) == ("contact" in other), done.stderr
        assert cluster.schema("a") != cluster.schema("b")
        with cluster.superuser() as superuser:
            superuser.execute("drop database a")
