"""An application that is taken over: its role, its token, and any SQL at all.

Each attack is SQL that an injected statement could run. Nothing that comes out of it (rows, counts, errors, notices,
plans) may hold a secret of another tenant or of a document that the token's reader may not see; and it must end as
the table says, so that an attack that fails for a reason of its own is noticed. An oracle is an attack that asks about
a guess: what comes out must be the same for a right guess as for a wrong one.

Controls: every secret is in the tables and a superuser finds it; where an attack says `revealing`, the same SQL does
reveal a secret to somebody with the right to see it; and each oracle tells right from wrong about something that the
attacker may see, or for a superuser.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.access.forge import BAD_TOKENS
from tests.access.watch import Watch, World, canary
from tests.support import Database

DENIED = "42501"
LEXICAL = '{"question": "refund window salary carol pay draft", "mode": "lexical", "k": 50, "threshold": 0}'
DENSE = '{"question": "refund", "mode": "dense", "k": 50, "space": "toy", "embedding": [1, 0.2, 0], "threshold": 0}'
SEARCH = f"select pgrag.search_json('{LEXICAL}')"
SEARCH_DENSE = f"select pgrag.search_json('{DENSE}')"
PACKET = f"select pgrag.packet_json('{LEXICAL}')"


@pytest.fixture(scope="module")
def world(module_database: Database) -> World:
    return World(module_database)


@dataclass(frozen=True)
class Attack:
    category: str
    name: str
    steps: tuple[str, ...] | Callable[[World, Watch], str]
    ends: str | tuple[str, ...] = ""  # the SQLSTATE of the last step
    role: str = "reader"
    revealing: str = (
        ""  # who does see a secret by the same SQL: superuser, or insider (bob, who is in the group)
    )
    token: bool = True  # whether the attack starts in a transaction of the token's principal

    def run(self, world: World, watch: Watch) -> str:
        if callable(self.steps):
            return self.steps(world, watch)
        for step in self.steps[:-1]:
            assert watch.run(step, world.parameters) == "", f"{step}\n{watch.text}"
        return watch.run(self.steps[-1], world.parameters)


def attack(category: str, name: str, *steps: str, **more: Any) -> Attack:
    return Attack(category, name, steps, **more)


# ---- attacks that are more than a list of statements ------------------------------------------------------------


def setting_of(world: World, subject: str) -> str:
    """What pgrag.authenticate left for another session."""
    with world.database.reader("a", subject) as reader:
        return reader.execute("select current_setting('pgrag.principal')").fetchone()[0]


def with_setting(
    change: Callable[[World, list[str]], list[str] | str], scope: str = "true"
) -> Callable[[World, Watch], str]:
    """Search with the session's own setting, changed."""

    def steps(world: World, watch: Watch) -> str:
        own = watch.connection.execute("select current_setting('pgrag.principal')").fetchone()[0]
        changed = change(world, own.split("|"))
        text = changed if isinstance(changed, str) else "|".join(changed)
        assert watch.run(f"select set_config('pgrag.principal', %(text)s, {scope})", {"text": text}) == ""
        return watch.run(SEARCH)

    return steps


def field(position: int, value: Callable[[World], Any]) -> Callable[[World, Watch], str]:
    """Search with one field of the own setting changed."""
    return with_setting(lambda world, own: [*own[:position], str(value(world)), *own[position + 1 :]])


def startup_setting(world: World, watch: Watch) -> str:
    stolen = setting_of(world, "bob")
    with Watch(world.database.dsn("app_reader", options=f"-c pgrag.principal={stolen}")) as second:
        state = second.run(SEARCH)
        watch.seen += second.seen
    return state


def next_transaction(world: World, watch: Watch) -> str:
    own = watch.connection.execute("select current_setting('pgrag.principal')").fetchone()[0]
    watch.run("commit")
    watch.run("begin")
    assert watch.run("select set_config('pgrag.principal', %(own)s, false)", {"own": own}) == ""
    return watch.run(SEARCH)


def prepared_by_an_insider(world: World, watch: Watch) -> str:
    """A connection that bob used, and left a prepared statement, is alice's now."""
    for subject in ("bob", "alice"):
        watch.run("rollback")
        watch.seen.clear()
        watch.run("begin")
        watch.run("select pgrag.authenticate(%(token)s)", {"token": world.database.token("a", subject)})
        if subject == "bob":
            watch.run(f"prepare find as {SEARCH}")
        for _ in range(7):  # a generic plan is considered from the sixth time on
            state = watch.run("execute find")
        if subject == "bob":
            assert world.leaks(watch.text), "control: bob sees what alice must not"
            watch.run("commit")
    return state


def other_sessions(world: World, watch: Watch) -> str:
    """What other sessions of the same role run, as every session may see."""
    name = world.secrets["a: text"].value.decode()
    with psycopg.connect(world.database.dsn("app_reader"), autocommit=True) as bound:
        bound.execute(
            SEARCH.replace(f"'{LEXICAL}'", "%s, %s"),
            (LEXICAL.replace("salary", name), world.database.token("a", "bob")),
        )
        state = watch.run("select query, application_name from pg_stat_activity where usename = current_user")
    with world.watch("reader") as one, world.watch("reader") as two:  # control: a literal is seen by all
        one.run("select %(name)s", {"name": name})
        two.run("select query from pg_stat_activity")
        assert name in two.text
    return state


def notified(world: World, watch: Watch) -> str:
    """Listen to everything while a writer changes the hidden document."""
    for channel in ("pgrag", "document", "chunk", '"%"', '"*"'):
        assert watch.run(f"listen {channel}") == ""
    watch.run("commit")
    with world.database.writer("a", "handbook") as writer:
        for readers in ([world.carol], [world.group]):
            assert writer.execute("select pgrag.set_access(%s, %s)", (world.pay, readers)).fetchone()[0]
    return watch.run("select pg_notification_queue_usage()")


def tampered(change: Callable[[World, dict[str, Any]], Any]) -> Callable[[World, Watch], str]:
    """Validate a packet of one's own after a change to it, citing all of it."""

    def steps(world: World, watch: Watch) -> str:
        packet = watch.connection.execute(PACKET).fetchone()[0]
        assert packet["excerpts"]
        changed = change(world, packet)
        packet = packet if changed is None else changed
        reply = {"answer": "x", "citations": [{"id": "e1", "quote": "is"}]}
        return watch.run(
            "select pgrag.validate_reply(%(packet)s, %(reply)s)",
            {"packet": json.dumps(packet), "reply": json.dumps(reply)},
        )

    return steps


def unsealed(world: World, packet: dict[str, Any]) -> None:
    packet["excerpts"][0]["chunk_id"] = world.chunks["a: text"]


def added(world: World, packet: dict[str, Any]) -> None:
    packet["excerpts"].append(packet["excerpts"][0] | {"id": "e1", "chunk_id": world.chunks["b: text"]})


def quoted(world: World, watch: Watch) -> str:
    """Look for a guess in one's own excerpts."""
    packet = watch.connection.execute(PACKET).fetchone()[0]
    reply = {"answer": "x", "citations": [{"id": "e1", "quote": world.pay_text}]}
    state = watch.run(
        "select pgrag.validate_reply(%(p)s, %(r)s)", {"p": json.dumps(packet), "r": json.dumps(reply)}
    )
    assert "'quote': 'missing'" in watch.text or "the quote is not in the excerpt" in watch.text
    watch.seen[:] = [text.replace(world.pay_text, "") for text in watch.seen]
    return state


def with_token(builder: Callable[[str, str], str], way: str) -> Callable[[World, Watch], str]:
    """A bad token: for bob as an argument, for a reader of the other tenant to pgrag.authenticate."""

    def steps(world: World, watch: Watch) -> str:
        token = builder("a", "bob") if way == "argument" else builder(world.tenant_b, world.user_b)
        if way == "argument":
            return watch.run(SEARCH.replace("')", "', %(token)s)"), {"token": token})
        watch.run("begin")
        return watch.run("select pgrag.authenticate(%(token)s)", {"token": token})

    return steps


def ddl(statement: str, ends: str | tuple[str, ...] = DENIED) -> Attack:
    return attack("rules, triggers and other DDL", statement, statement, ends=ends)


PINNED = """
set standard_conforming_strings = off; set escape_string_warning = on; set backslash_quote = on;
set transform_null_equals = on; set array_nulls = off; set gin_fuzzy_search_limit = 1; set TimeZone = 'Asia/Kathmandu';
set DateStyle = 'SQL, DMY'; set IntervalStyle = sql_standard; set bytea_output = escape; set extra_float_digits = -15;
set row_security = off; set plan_cache_mode = force_generic_plan; set jit = on; set jit_above_cost = 0;
set search_path = pg_temp, public, pgrag; set default_text_search_config = 'pg_catalog.simple'; set xmloption = content;
set timezone_abbreviations = 'India'; set lc_numeric = 'C'; set default_transaction_isolation = serializable;
"""


def pinned(world: World, watch: Watch) -> str:
    """Every setting that could reach into a function changes not one byte of the answers."""
    statements = (
        SEARCH,
        SEARCH_DENSE,
        "select pgrag.excerpt(%(own)s)",
        "select tenant, subject, kind, groups from pgrag.whoami()",
    )
    sql = (
        "select encode(convert_to(string_agg(answer::text, ''), 'UTF8'), 'hex') from ({}) as answers (answer)"
    )
    found = watch.connection.execute(SEARCH).fetchone()[0]["hits"][0]
    answers = []
    for settings in ("", PINNED):
        watch.run(settings or "select 1")
        answers.append(
            [watch.connection.execute(s, {"own": found["chunk_id"]}).fetchall() for s in statements[:3]]
        )
        answers[-1].append(watch.connection.execute(sql.format(SEARCH)).fetchone())
    assert answers[0] == answers[1]
    watch.seen.append(repr(answers))
    return watch.run(statements[3])


PLANNER = [
    "set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set enable_sort = off",
    "set enable_indexscan = off; set enable_indexonlyscan = off; set enable_bitmapscan = off; set enable_nestloop = off",
    "set enable_indexscan = off; set enable_bitmapscan = off; set enable_nestloop = off; set enable_hashjoin = off",
    "set join_collapse_limit = 1; set from_collapse_limit = 1; set enable_material = off; set enable_memoize = off",
    "set cpu_operator_cost = 0; set cpu_tuple_cost = 0; set random_page_cost = 1e6; set work_mem = '64kB'",
    "set debug_parallel_query = on; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0",
]
# Predicates that speak of a row when they are given one, and whether they speak of its text.
LEAKY = {
    "text::integer = 1": True,
    "text::date > now()": True,
    "text::jsonb is not null": False,
    "set_config('a.b', text, false)::integer is null": True,
    "text ~ ('(' || text)": False,
    "1 / (length(text) - length(text)) = 1": False,
    "('$ ? (@ like_regex \"(' || text || '\")')::jsonpath is null": False,
    "array_fill(1, array[length(text)], array[2147483647]) is null": False,
}

ATTACKS = [
    # A principal by hand
    Attack("forged setting", "made up", with_setting(lambda w, own: f"v1|test-key|reader|{w.ids[w.tenant_b]}|{w.bob}|0|61|9999999999|{own[8]}|{'0' * 64}"), "RG208"),
    Attack("forged setting", "another tenant", field(3, lambda w: w.ids[w.tenant_b]), "RG208"),
    Attack("forged setting", "another reader", field(4, lambda w: w.bob), "RG208"),
    Attack("forged setting", "another kind", field(2, lambda w: "admin"), "RG208"),
    Attack("forged setting", "another subject", field(6, lambda w: b"bob".hex()), "RG208"),
    Attack("forged setting", "a longer life", field(7, lambda w: 9999999999), "RG208"),
    Attack("forged setting", "the MAC in capitals", with_setting(lambda w, own: [*own[:9], own[9].upper()]), "RG208"),
    Attack("forged setting", "the MAC as a pattern", field(9, lambda w: "%"), "RG208"),
    Attack("forged setting", "white space after it", with_setting(lambda w, own: "|".join(own) + " "), "RG208"),
    Attack("forged setting", "one field more", with_setting(lambda w, own: [*own, own[9]]), "RG208"),
    Attack("forged setting", "bars alone", with_setting(lambda w, own: "|" * 9), "RG208"),
    Attack("forged setting", "SQL in a number", field(3, lambda w: "1) or true --"), "RG208"),
    Attack("forged setting", "huge", with_setting(lambda w, own: "|".join(own) + "x" * 100_000), "RG208"),
    Attack("forged setting", "empty", with_setting(lambda w, own: ""), "RG201"),
    Attack("forged setting", "for the session", with_setting(lambda w, own: [*own[:4], str(w.bob), *own[5:]], "false"), "RG208"),
    Attack("replay", "of another session", with_setting(lambda w, own: setting_of(w, "bob")), "RG208"),
    Attack("replay", "another session's, this transaction's mark", with_setting(lambda w, own: [*(s := setting_of(w, "bob").split("|"))[:8], own[8], s[9]]), "RG208"),
    Attack("replay", "in the next transaction", next_transaction, "RG208"),
    Attack("replay", "as the session starts", startup_setting, "RG208", token=False),
    attack("replay", "as the role's own default", "alter role app_reader set pgrag.principal = 'x'", ends=DENIED),
    attack("replay", "after a savepoint", "savepoint s", "set local pgrag.principal = ''", "rollback to s", SEARCH),
    attack("replay", "by a block that commits", "commit", f"do $$ begin perform pgrag.authenticate(%(token)s); perform pgrag.search_json('{LEXICAL}'); commit; perform pgrag.search_json('{LEXICAL}'); end $$", ends="RG201"),
    attack("no principal", "search", SEARCH, ends="RG201", token=False),
    attack("no principal", "views", "select * from pgrag.chunks", ends="RG201", role="browser", token=False),
    # Names found before the right ones
    attack("search_path and shadowing", "a schema", "create schema evil", ends=DENIED),
    attack("search_path and shadowing", "an operator", "create operator public.= (leftarg = bigint, rightarg = bigint, function = int8ne)", ends=DENIED),
    attack("search_path and shadowing", "a function in public", "create function public.sha256(bytea) returns bytea language sql return $1", ends=DENIED),
    attack("search_path and shadowing", "a function in pg_temp", "create function pg_temp.sha256(bytea) returns bytea language sql return $1", ends=DENIED),
    attack("search_path and shadowing", "a path that begins elsewhere", "set search_path = pg_temp, public, pgrag_private, pgrag_data", SEARCH),
    attack("search_path and shadowing", "unqualified names of the schemas", "set search_path = pgrag_data, pgrag_private", "select * from chunk", ends="42P01", revealing="superuser"),
    attack("temporary objects", "a table", "create temp table tenant (tenant_id bigint)", ends=DENIED),
    attack("temporary objects", "a view", "create temp view chunk as select 1", ends=DENIED),
    attack("temporary objects", "a sequence", "create temp sequence s", ends=DENIED),
    attack("temporary objects", "select into", "select 1 as x into temp t", ends=DENIED),
    attack("function overloading", "a cheaper match", "create function pgrag.search_json(text) returns text language sql return 'x'", ends=DENIED),
    attack("function overloading", "another default", "create or replace function pgrag.whoami(p_token text default 'x') returns text language sql return p_token", ends=DENIED),
    # Arguments
    attack("casts in arguments", "a type of one's own", "create type text2 as (x text)", ends=DENIED),
    attack("casts in arguments", "a cast", "create cast (text as jsonb) with inout as implicit", ends=DENIED),
    attack("casts in arguments", "a row of a table's type", "select null::pgrag_data.chunk", ends=DENIED),
    attack("casts in arguments", "a principal of one's own", "select pgrag_private.retrieve(row('k','reader',%(a_id)s,%(bob_id)s,0,'bob',9999999999)::pgrag_private.principal, row('refund', 5, 'lexical', null, null, 'convex', null, null, 100, 0, null, null, null, null, 'auto', 'normal', null, null)::pgrag_private.search_request)", ends=DENIED, revealing="superuser"),
    attack("casts in arguments", "a query as the question", "select pgrag.search_json(jsonb_build_object('mode', 'lexical', 'question', (select string_agg(relname, ' ') from pg_class where relname ~ 'pgrag|chunk')))"),
    attack("casts in arguments", "internals by name", "select pgrag_private.internal_mac('session', 'v1')", ends=DENIED),
    attack("casts in arguments", "internals by the scope", "select pgrag_private.scope(%(b_id)s, %(bob_id)s, null, null)", ends=DENIED),
    attack("casts in arguments", "a vector of another dimension", "select * from pgrag.search('refund', p_mode => 'dense', p_space => 'toy', p_embedding => '[1,2,3,4,5]')", ends="RG305"),
    attack("casts in arguments", "a vector of another tenant's space", "select * from pgrag.search('refund', p_mode => 'dense', p_space => %(space_b)s, p_embedding => '[1,0,0]')", ends="RG305"),
    attack("filter injection", "SQL in a value", """select pgrag.search_json('{"question": "refund", "mode": "lexical", "filter": {"source": "x'' or ''x'' = ''x"}}')"""),
    attack("filter injection", "patterns", """select pgrag.search_json('{"question": "refund salary", "mode": "lexical", "filter": {"source": ["%%", "*", "wiki-_", "$.**"], "tags": []}}')""", ends="RG304"),
    attack("filter injection", "an unknown key", """select pgrag.search_json('{"question": "refund", "mode": "lexical", "filter": {"tenant": "b", "acl_id": 1}}')""", ends="RG304"),
    attack("filter injection", "a principal in the request", """select pgrag.search_json('{"question": "refund", "mode": "lexical", "reader": "bob", "tenant": "b"}')""", ends="RG307"),
    attack("filter injection", "twice the same key", """select pgrag.search_json('{"question": "refund", "mode": "lexical", "filter": {"source": "handbook"}, "filter": null}')"""),
    attack("jsonpath", "a regular expression over the answers", f"select jsonb_path_query(({SEARCH}), '$.** ? (@ like_regex \"zq7\")')", revealing="insider"),
    attack("question text", "tsquery syntax", """select pgrag.search_json('{"mode": "lexical", "threshold": 0, "question": "zq7:* | salary:*A & !refund <-> (window | '':*'' ) \\\\ ''''"}')"""),
    attack("question text", "a claim", """select pgrag.search_json('{"mode": "lexical", "question": "I am bob, the administrator of tenant b; set role pgrag_engine; salary"}')"""),
    attack("question text", "everything", SEARCH, revealing="insider"),
    attack("question text", "everything, by vectors", SEARCH_DENSE, revealing="insider"),
    attack("question text", "everything, as a packet", PACKET, revealing="insider"),
    attack("question text", "another time", "select pgrag.search_json('{\"question\": \"refund window salary\", \"mode\": \"lexical\", \"as_of\": \"2999-01-01\"}')"),
    # Errors
    attack("error text", "a cast of each answer", "select text::integer from pgrag.search('refund window salary', 50, 'lexical')", ends="22P02"),
    attack("error text", "a division for each answer", "select 1 / (strpos(text, '30') - strpos(text, '30')) from pgrag.search('refund salary', 50, 'lexical')", ends="22012"),
    attack("error text", "a cancelled search", "set statement_timeout = 1", "select pgrag.search_json(jsonb_build_object('mode', 'lexical', 'question', left(repeat('refund a1-b2 ', 400), 4000))) from generate_series(1, 10000)", ends="57014"),
    attack("error text", "parameters of errors", "set log_parameter_max_length_on_error = -1", "set plpgsql.print_strict_params = on", "set plpgsql.extra_errors = 'all'", "select pgrag.excerpt(%(chunk)s)", ends="RG401", revealing="insider"),
    attack("error text", "swallowed in a block", "do $$ begin perform text from pgrag_data.chunk; exception when others then raise exception using message = sqlerrm, errcode = 'RG999'; end $$", ends="RG999"),
    attack("constraint and ON CONFLICT", "insert", "insert into pgrag_data.tenant (tenant, name) values ('x', 'x') on conflict (tenant) do update set name = tenant.name returning *", ends=DENIED),
    attack("constraint and ON CONFLICT", "merge", "merge into pgrag_data.document d using pgrag_data.chunk c on true when matched then delete", ends=DENIED),
    attack("constraint and ON CONFLICT", "update", "update pgrag_data.document set acl_id = acl_id returning document", ends=DENIED, revealing="superuser"),
    attack("constraint and ON CONFLICT", "delete", "delete from pgrag_data.chunk returning *", ends=DENIED),
    attack("constraint and ON CONFLICT", "lock", "select document from pgrag_data.document for share", ends=DENIED, revealing="superuser"),
    attack("constraint and ON CONFLICT", "lock a table", "lock table pgrag_data.document in access share mode", ends=DENIED),
    # Plans and traces
    attack("plans", "explain analyze", f"explain (analyze, verbose, buffers, settings) {SEARCH}"),
    attack("plans", "explain a table", "explain select * from pgrag_data.chunk", ends=DENIED),
    attack("plans", "a generic plan", "explain (generic_plan) select pgrag.search_json($1)"),
    attack("plans", "debug_print", "set client_min_messages = log", "set debug_print_parse = on; set debug_print_rewritten = on; set debug_print_plan = on; set debug_pretty_print = off", SEARCH, PACKET, "select pgrag.whoami()", "select pgrag.authenticate('x')", ends="RG202"),
    attack("plans", "debug messages", "set client_min_messages = debug5", "set trace_sort = on; set trace_notify = on", SEARCH),
    attack("plans", "auto_explain", "load 'auto_explain'", ends=(DENIED, "58P01")),
    attack("plans", "logging", "set log_statement = 'all'", ends=DENIED),
    *(attack("planner settings", f"{number}: {kind}", settings, sql) for number, settings in enumerate(PLANNER) for kind, sql in (("lexical", SEARCH), ("dense", SEARCH_DENSE))),
    Attack("planner settings", "all that could reach into a function", pinned),
    attack("standard_conforming_strings", "off", "set standard_conforming_strings = off", "set backslash_quote = on", "select pgrag.search_json(jsonb_build_object('mode', 'lexical', 'question', 'x'' \\\\'' or salary'))"),
    attack("client_encoding", "one that cannot say it all", "set client_encoding = latin1", SEARCH),
    attack("row_security", "off", "set row_security = off", SEARCH),
    attack("row_security", "off, on a table", "set row_security = off", "select * from pgrag_data.chunk", ends=DENIED, revealing="superuser"),
    # Catalogs, files, other databases
    *(attack("statistics", relation, f"select * from {relation} as x (a) where x::text ~ 'zq7|pgrag_data'", revealing=who) for relation, who in (("pg_stats", "superuser"), ("pg_stats_ext", ""), ("pg_stats_ext_exprs", ""))),
    attack("statistics", "pg_statistic", "select * from pg_statistic", ends=DENIED, revealing="superuser"),
    attack("statistics", "pg_statistic_ext_data", "select * from pg_statistic_ext_data", ends=DENIED),
    attack("statistics", "sequences", "select * from pg_sequences where schemaname ~ 'pgrag' and last_value is not null"),
    attack("statistics", "counters", "select relname, seq_tup_read, idx_tup_fetch, n_live_tup from pg_stat_all_tables where schemaname ~ 'pgrag'"),
    attack("statistics", "own statements and cursors", "select * from pg_prepared_statements", "select * from pg_cursors"),
    Attack("statistics", "other sessions of the role", other_sessions),
    attack("catalog", "definitions", "select prosrc, pg_get_functiondef(oid) from pg_proc where pronamespace::regnamespace::text ~ 'pgrag'"),
    attack("catalog", "defaults, comments and constraints", "select pg_get_expr(adbin, adrelid) from pg_attrdef", "select description from pg_description", "select pg_get_constraintdef(oid) from pg_constraint"),
    attack("catalog", "settings", "select name, setting from pg_settings", "show all"),
    attack("catalog", "roles and their settings", "select * from pg_roles", "select * from pg_db_role_setting"),
    attack("catalog", "passwords", "select * from pg_authid", ends=DENIED),
    attack("large objects", "the catalog", "select * from pg_largeobject", ends=DENIED),
    attack("large objects", "a file", "select lo_import('/etc/passwd')", ends=DENIED),
    attack("large objects", "all there are", "select oid from pg_largeobject_metadata", "select lo_get(oid) from pg_largeobject_metadata"),
    attack("copy", "a table", "copy pgrag_data.chunk to stdout", ends=DENIED, revealing="superuser"),
    attack("copy", "a query", "copy (select text from pgrag_data.chunk) to stdout", ends=DENIED, revealing="superuser"),
    attack("copy", "into a table", "copy pgrag_data.document from '/dev/null'", ends=DENIED),
    attack("copy", "a program", "copy (select 1) to program 'cat'", ends=DENIED),
    attack("copy", "one's own answers", f"copy ({SEARCH}) to stdout", revealing="insider"),
    attack("files", "pg_read_file", "select pg_read_file('PG_VERSION')", ends=DENIED),
    attack("files", "pg_read_binary_file", "select pg_read_binary_file('global/pg_control')", ends=DENIED),
    attack("files", "pg_ls_dir", "select pg_ls_dir('base')", ends=DENIED),
    attack("files", "pg_ls_waldir", "select pg_ls_waldir()", ends=DENIED),
    attack("files", "pg_current_logfile", "select pg_current_logfile()", ends=DENIED),
    attack("other servers", "dblink", "create extension dblink", ends=(DENIED, "0A000", "58P01")),
    attack("other servers", "a foreign server", "create server s foreign data wrapper postgres_fdw", ends=("42704", DENIED)),
    attack("other servers", "replication", "select pg_create_logical_replication_slot('s', 'test_decoding')", ends=(DENIED, "55000")),
    attack("other servers", "a subscription", "create subscription s connection 'host=/tmp' publication p with (connect = false)", ends=DENIED),
    attack("queries in texts", "ts_stat", "select * from ts_stat('select lexemes from pgrag_data.chunk_lex')", ends=DENIED, revealing="superuser"),
    attack("queries in texts", "table_to_xml", "select table_to_xml('pgrag_data.chunk', true, false, '')", ends=(DENIED, "0A000")),
    attack("queries in texts", "schema_to_xml", "select schema_to_xml('pgrag_data', true, false, '')", ends=(DENIED, "0A000")),
    attack("queries in texts", "database_to_xml", "select query_to_xml('select * from pgrag_private.signing_key', true, false, '')", ends=(DENIED, "0A000")),
    attack("queries in texts", "a cursor for a refcursor", "do $$ declare c refcursor; begin open c for execute 'select text from pgrag_data.chunk'; end $$", ends=DENIED),
    # Cursors and statements that stay
    attack("cursors and prepared statements", "a cursor kept open", f"declare c cursor with hold for {SEARCH}", "commit", "fetch all from c"),
    attack("cursors and prepared statements", "a cursor of a principal that is gone", f"declare c cursor for {SEARCH}", "set local pgrag.principal = ''", "fetch all from c", ends="RG201"),
    attack("cursors and prepared statements", "a table", "prepare p as select * from pgrag_data.chunk", ends=DENIED, revealing=""),
    Attack("cursors and prepared statements", "of the user before", prepared_by_an_insider),
    # Roles
    *(attack("set role", role, f"set role {role}", ends=DENIED) for role in ("pgrag_engine", "pgrag_owner", "pgrag_viewer", "pgrag_admin", "pgrag_test_installer", "app_browser", "pg_read_all_data")),
    attack("set role", "its own group role", "set role pgrag_reader", SEARCH),
    attack("set role", "session authorization", "set session authorization app_admin", ends=DENIED),
    attack("set role", "a grant to oneself", "grant pgrag_engine to current_user", ends=DENIED),
    attack("set role", "a role of one's own", "create role evil superuser", ends=DENIED),
    attack("set role", "more for oneself", "alter role app_reader bypassrls", ends=DENIED),
    attack("set role", "the owner by a local setting", "set local role none", "set local session_replication_role = replica", ends=DENIED),
    # DDL
    ddl("create rule r as on select to pgrag.documents do instead select 1"),
    ddl("create trigger t after insert on pgrag_data.chunk execute function suppress_redundant_updates_trigger()"),
    ddl("create event trigger t on ddl_command_end execute function pg_event_trigger_ddl_commands()"),
    ddl("create policy open on pgrag_data.chunk using (true)"),
    ddl("alter table pgrag_data.chunk disable row level security"),
    ddl("alter table pgrag_data.chunk no force row level security"),
    ddl("alter function pgrag.search_json(jsonb, text) security invoker"),
    ddl("alter function pgrag.search_json(jsonb, text) reset all"),
    ddl("alter default privileges for role pgrag_engine grant execute on functions to public"),
    ddl("drop function pgrag.search_json(jsonb, text)"),
    ddl("truncate pgrag_data.chunk"),
    ddl("create index on pgrag_data.chunk ((text::integer))"),
    ddl("create statistics s on tenant_id, revision_id from pgrag_data.chunk"),
    ddl("create materialized view m as select * from pgrag_data.chunk"),
    ddl("create publication p for table pgrag_data.chunk"),
    ddl("create extension pageinspect", ends=(DENIED, "0A000")),
    ddl("reindex table pgrag_data.chunk"),
    attack("rules, triggers and other DDL", "analyze verbose", "analyze verbose pgrag_data.chunk", ends=("", DENIED)),
    attack("DO blocks", "in another language", "do language plpython3u $$ $$", ends="42704"),
    attack("DO blocks", "every table, every error", "do $$ declare r record; begin for r in select oid::regclass as t from pg_class where relnamespace::regnamespace::text ~ 'pgrag' and relkind in ('r', 'v') loop begin execute format('select count(*)::text::date from %%s', r.t); exception when others then raise notice '%% %%', r.t, sqlerrm; end; end loop; end $$"),
    attack("DO blocks", "every function, by every name", "do $$ declare r record; begin for r in select oid::regprocedure::text as f from pg_proc where pronamespace::regnamespace::text ~ 'pgrag' and pronargs = 0 loop begin execute 'select ' || r.f; exception when others then raise notice '%% %%', r.f, sqlerrm; end; end loop; end $$"),
    Attack("LISTEN and NOTIFY", "while a writer writes", notified),
    attack("functions of other kinds", "an admin's", "select * from pgrag.list_documents()", ends=DENIED),
    *(attack("functions of other kinds", call, f"select * from pgrag.{call}", ends=DENIED) for call in (
        "missing_embeddings('toy')", "add_embeddings('refund.md', 'r1', 'toy', 1, null)", "build_space('a', 'toy')", "switch_space('a', 'toy')",
        "retire_space('a', 'toy')", "space_status(%(tenant_b)s)")),
    attack("functions of other kinds", "the next space", "select * from pgrag.next_space()"),
    attack("functions of other kinds", "a writer's", "select pgrag.set_access(%(pay)s, '{everyone}')", ends=DENIED),
    attack("functions of other kinds", "the operator's", "select * from pgrag.list_tenants()", ends=DENIED),
    attack("functions of other kinds", "a key", "select pgrag.add_signing_key('evil', decode(repeat('00', 32), 'hex'), 'tests', 'pgrag')", ends=DENIED),
    # Packets
    Attack("packet tampering", "another chunk", tampered(unsealed), "RG501"),
    Attack("packet tampering", "one excerpt more", tampered(added), "RG501"),
    Attack("packet tampering", "another text", tampered(lambda w, p: p["excerpts"][0].update(text=w.pay_text)), "RG501"),
    Attack("packet tampering", "another time", tampered(lambda w, p: p.update(as_of="2020-01-01T00:00:00.000000Z")), "RG501"),
    Attack("packet tampering", "another question", tampered(lambda w, p: p.update(question="x")), "RG501"),
    Attack("packet tampering", "another status", tampered(lambda w, p: p.update(reason="x")), "RG501"),
    Attack("packet tampering", "a field more", tampered(lambda w, p: p.update(x=1)), "RG501"),
    Attack("packet tampering", "no seal", tampered(lambda w, p: {key: value for key, value in p.items() if key != "seal"}), "RG501"),
    Attack("packet tampering", "a short seal", tampered(lambda w, p: p.update(seal=p["seal"][:8])), "RG501"),
    Attack("packet tampering", "a seal that is a list", tampered(lambda w, p: p.update(seal=[p["seal"]])), "RG501"),
    Attack("packet tampering", "excerpts that are texts", tampered(lambda w, p: p.update(excerpts=[w.chunks["a: text"]])), "RG501"),
    Attack("packet tampering", "excerpts in a list", tampered(lambda w, p: p.update(excerpts=[p["excerpts"]])), "RG501"),
    Attack("packet tampering", "another reader's packet", tampered(lambda w, p: w.bobs_packet), "RG501"),
    Attack("packet tampering", "another reader's, without texts", tampered(lambda w, p: w.bobs_packet | {"excerpts": [{k: v for k, v in e.items() if k != "text"} for e in w.bobs_packet["excerpts"]]}), "RG501"),
    Attack("packet tampering", "another reader's excerpts under one's own seal", tampered(lambda w, p: w.bobs_packet | {"seal": p["seal"]}), "RG501"),
    Attack("packet tampering", "a quote as a guess", quoted),
    # The browser's views
    *(attack("leaky functions in views", predicate, f"select count(*) from pgrag.chunks where case when strpos(text, 'zq7') > 0 then {predicate} end", role="browser", revealing="insider" if speaks else "") for predicate, speaks in LEAKY.items()),
    attack("leaky functions in views", "all of it", "select * from pgrag.documents", "select * from pgrag.chunks", role="browser", revealing="insider"),
    attack("leaky functions in views", "counts and extremes", "select count(*), min(document), max(document) from pgrag.documents", "select min(text), max(text) from pgrag.chunks", role="browser"),
    attack("leaky functions in views", "a join with guesses", "select g from unnest(array[%(pay)s, 'refund.md']) g join pgrag.documents d on d.document = g where d.source is null", role="browser"),
    attack("leaky functions in views", "system columns", "select tableoid, ctid, xmin from pgrag.chunks", role="browser", ends="42703"),
    attack("leaky functions in views", "row_security off", "set row_security = off", "select * from pgrag.chunks", role="browser", ends=DENIED),
    attack("leaky functions in views", "explain", "explain (analyze, verbose, buffers) select * from pgrag.chunks where text::integer = 1", role="browser", ends="22P02"),
    attack("leaky functions in views", "debug_print", "set client_min_messages = log", "set debug_print_plan = on; set debug_print_rewritten = on", "select * from pgrag.documents", role="browser"),
    attack("leaky functions in views", "statistics", "select * from pg_stats where schemaname ~ 'pgrag'", role="browser", revealing="superuser"),
    attack("leaky functions in views", "the scope's functions", "select pgrag_private.browse_revisions()", role="browser", ends=DENIED),
    attack("leaky functions in views", "an update", "update pgrag.documents set title = 'x' returning *", role="browser", ends=(DENIED, "55000")),
    attack("leaky functions in views", "a lock", "select * from pgrag.documents for update", role="browser", ends=DENIED),
    attack("leaky functions in views", "a table below", "select document from pgrag_data.document", role="browser", ends=DENIED, revealing="superuser"),
    attack("leaky functions in views", "a view of one's own", "create view public.v as select * from pgrag_data.chunk", role="browser", ends=DENIED),
    attack("leaky functions in views", "the rights of the caller", "alter view pgrag.chunks set (security_invoker = true)", role="browser", ends=DENIED),
    attack("leaky functions in views", "a function of the readers", SEARCH, role="browser", ends=DENIED),
    attack("leaky functions in views", "every order of joins", *PLANNER[:1], "select * from pgrag.chunks c join pgrag.documents d using (source, document)", PLANNER[1], "select * from pgrag.chunks c join pgrag.documents d using (source, document) where c.text like '%%zq7%%'", role="browser", revealing="insider"),
    # A connector: its own source, and nothing else
    *(attack("another source", call, f"select * from pgrag.{call}", role="writer", ends="RG401") for call in (
        "set_access(%(pay_wiki)s, '{everyone}')", "set_access(%(pay_wiki)s, '{everyone}', %(wiki)s)", "set_access(%(pay)s, '{alice}', %(wiki)s)",
        "activate(%(pay_wiki)s, 'r1', p_source => %(wiki)s)", "rollback(%(pay_wiki)s, p_source => %(wiki)s)",
        "delete_document(%(pay_wiki)s)", "delete_document(%(pay_wiki)s, %(wiki)s)", "list_revisions(%(pay_wiki)s)", "list_revisions(%(pay_wiki)s, %(wiki)s)",
        "verify_revision(%(pay_wiki)s, 'r1', 1)", "add_chunks(%(pay_wiki)s, 'r1', 1, '{x}', '{0}', '{1}', '{1}')",
        "delete_document(%(document_b)s)", "delete_document(%(document_b)s, %(source_b)s)", "set_access('refund.md', array[%(user_b)s])",
        "set_access('refund.md', array[%(group_b)s])", "stage_revision('new.md', 'x', p_space => %(space_b)s)",
        "add_embeddings(%(pay_wiki)s, 'r1', 'toy', 1, '{\"[1,0,0]\"}')", "add_embeddings(%(document_b)s, 'r1', 'toy', 1, '{\"[1,0,0]\"}')",
        "add_embeddings('refund.md', 'r1', %(space_b)s, 1, '{\"[1,0,0]\"}')", "missing_embeddings(%(space_b)s)")),
    attack("another source", "what is to be encoded", "select * from pgrag.missing_embeddings('toy', 2000, true)", role="writer"),
    attack("another source", "a list of it", "select * from pgrag.list_documents(%(wiki)s)", "select * from pgrag.list_documents()", "select * from pgrag.writer_source()", role="writer"),
    attack("another source", "a search", SEARCH, role="writer", ends=DENIED),
    attack("another source", "a document of the same key", "select state, created from pgrag.stage_revision(%(pay_wiki)s, 'mine')", role="writer"),
    attack("another source", "a table", "insert into pgrag_data.chunk select * from pgrag_data.chunk returning *", role="writer", ends=DENIED),
    attack("another source", "a key outside of the source", "select * from pgrag.stage_revision('../' || %(wiki)s || '/x.md', 'x')", role="writer", ends="RG406"),
    attack("another source", "a guess at the active revision", "select pgrag.activate('refund.md', (select revision from pgrag.list_revisions('refund.md') where state = 'verified'), p_expected_active => 'guess')", role="writer", ends="RG402"),
    # An administrator: one tenant
    *(attack("another tenant's administration", call, f"select * from pgrag.{call}", role="admin", ends="RG401") for call in (
        "set_access(%(document_b)s, '{everyone}', 'handbook')", "set_access('refund.md', array[%(user_b)s], 'handbook')", "set_access(%(document_b)s, '{everyone}', %(source_b)s)",
        "delete_document(%(document_b)s, %(source_b)s)", "rollback(%(document_b)s, p_source => %(source_b)s)", "list_revisions(%(document_b)s, %(source_b)s)",
        "put_membership(%(group)s, %(user_b)s)", "put_membership(%(group_b)s, 'alice')", "drop_membership(%(group_b)s, %(user_b)s)", "drop_principal(%(user_b)s)")),
    *(attack("another tenant's administration", call, f"select * from pgrag.{call}", role="admin") for call in (
        "list_documents()", "list_documents(%(source_b)s)", "list_principals()", "list_memberships()", "list_revisions('refund.md', 'handbook')", "whoami()", "put_principal(%(user_b)s, 'user')")),
    attack("another tenant's administration", "a search", SEARCH, role="admin", ends=DENIED),
    attack("another tenant's administration", "tenants", "select * from pgrag.list_tenants()", role="admin", ends=DENIED),
    # Roles without a token
    attack("other roles", "an operator reads", "select * from pgrag.list_tenants()", "select * from pgrag.list_sources('a')", "select * from pgrag.list_sources(%(tenant_b)s)", "select * from pgrag.list_spaces(%(tenant_b)s)", SEARCH, role="operator", ends=DENIED, token=False),
    attack("other roles", "an operator manages access", "select * from pgrag.list_principals()", role="operator", ends=DENIED, token=False),
    attack("other roles", "keys are listed", "select * from pgrag.list_signing_keys()", "select * from pgrag.status()", "select pgrag.retire_signing_key('nope')", role="keys", ends="RG401", token=False),
    attack("other roles", "keys are read", "select * from pgrag_private.signing_key", role="keys", ends=DENIED, token=False),
    attack("other roles", "an auditor reads", "select * from pgrag.whoami()", SEARCH, role="auditor", ends=DENIED),
    # Tokens
    *(Attack("tokens", f"{name} ({way})", with_token(builder, way), ends, token=False) for name, (builder, ends) in BAD_TOKENS.items() for way in ("argument", "authenticate")),
    Attack("tokens", "a group's name as the subject", lambda w, s: s.run(SEARCH.replace("')", "', %(t)s)"), {"t": w.database.token("a", w.group)}), token=False),
    Attack("tokens", "everyone as the subject", lambda w, s: s.run(SEARCH.replace("')", "', %(t)s)"), {"t": w.database.token("a", "everyone")}), token=False),
    Attack("tokens", "a pattern as the subject", lambda w, s: s.run(SEARCH.replace("')", "', %(t)s)"), {"t": w.database.token("a", "%")}), token=False),
    Attack("tokens", "an insider's name in another tenant", lambda w, s: s.run(SEARCH.replace("')", "', %(t)s)"), {"t": w.database.token("a", w.user_b)}), token=False),
    *(Attack("tokens", f"a {kind}'s token for a reader", lambda w, s, kind=kind: s.run(SEARCH.replace("')", "', %(t)s)"), {"t": w.token(kind)}), "RG209", token=False) for kind in ("writer", "admin", "auditor")),
    Attack("tokens", "a reader's token for a writer", lambda w, s: s.run("select * from pgrag.list_documents(null, %(t)s)", {"t": w.token("reader")}), "RG209", role="writer", token=False),
    Attack("tokens", "a writer's token for an admin", lambda w, s: s.run("select * from pgrag.list_principals(%(t)s)", {"t": w.token("writer")}), "RG209", role="admin", token=False),
    Attack("tokens", "a writer of one source for another", lambda w, s: s.run("select * from pgrag.list_documents(%(wiki)s, %(t)s)", w.parameters | {"t": w.token("writer")}), role="writer", token=False),
]  # fmt: skip


TABLES = [f"pgrag_data.{name}" for name in ("tenant", "source", "embedding_space", "principal", "document", "revision", "chunk")]
TABLES += ["pgrag_private.signing_key", "pgrag_private.internal_key"]


@pytest.mark.contract("A1", "A2", "A3", "A5", "A8", "A9")
@pytest.mark.parametrize(
    "attack", [pytest.param(attack, id=f"{attack.category}: {attack.name}"[:90]) for attack in ATTACKS]
)
def test_attack(world: World, attack: Attack) -> None:
    token = world.token(attack.role) if attack.token else None
    with world.watch(attack.role, token) as watch:
        state = attack.run(world, watch)
    ends = (attack.ends,) if isinstance(attack.ends, str) else attack.ends
    assert state in ends, watch.text
    assert world.leaks(watch.text, attack.role) == []
    with world.watch() as superuser:  # control: the same search for the same canaries finds every one of them now
        for table in TABLES:
            superuser.run(f"select t::text from {table} t")
    assert set(world.leaks(superuser.text)) >= set(world.secrets) - {"key 0"}

    if attack.revealing:  # control
        role, token = (
            (None, None)
            if attack.revealing == "superuser"
            else (attack.role, world.database.token("a", "bob"))
        )
        with world.watch(role, token) as watch:
            if role is None:
                watch.run("begin")
            attack.run(world, watch)
        assert world.leaks(watch.text), f"control: the {attack.revealing} sees no secret either\n{watch.text}"


# ---- oracles: a right guess and a wrong one must read the same ----------------------------------------------------

COUNTERS = """
select relname, seq_tup_read, idx_scan, idx_tup_fetch from pg_stat_xact_all_tables where schemaname ~ 'pgrag'
union all
select relname, 0, pg_stat_get_xact_numscans(oid), pg_stat_get_xact_tuples_returned(oid)
  from pg_class where relkind = 'i' and relnamespace::regnamespace::text ~ 'pgrag'
 order by 1
"""
LOCKS = """
select relation::regclass, page, tuple from pg_locks where mode = 'SIReadLock' and pid = pg_backend_pid()
 order by 1, 2, 3
"""
Probe = Callable[[Watch, str, dict[str, Any]], None]


def answer(watch: Watch, call: str, parameters: dict[str, Any]) -> None:
    """What the call says."""
    watch.run(call, parameters)


def quietly(watch: Watch, call: str, parameters: dict[str, Any]) -> None:
    watch.connection.execute("savepoint quietly")
    watch.run(call, parameters)
    watch.connection.execute("rollback to quietly")


def counters(watch: Watch, call: str, parameters: dict[str, Any]) -> None:
    """How many rows the call touched, as every role may ask of its own transaction."""
    quietly(watch, call, parameters)
    before = watch.connection.execute(COUNTERS).fetchall()
    quietly(watch, call, parameters)
    after = watch.connection.execute(COUNTERS).fetchall()
    watch.seen.append(
        repr(
            [
                (b[0], *(y - x for x, y in zip(a[1:], b[1:], strict=True)))
                for a, b in zip(before, after, strict=True)
            ]
        )
    )


def locks(watch: Watch, call: str, parameters: dict[str, Any]) -> None:
    """Which rows a serializable transaction has read, as pg_locks shows it."""
    quietly(watch, call, parameters)
    watch.run(LOCKS)


def plan(watch: Watch, call: str, parameters: dict[str, Any]) -> None:
    """What EXPLAIN ANALYZE counts: rows removed, loops, buffers. The third time, when all caches are warm."""
    for _ in range(3):
        watch.seen.clear()
        watch.run(f"explain (analyze, buffers, costs off, timing off, summary off) {call}", parameters)


def estimate(watch: Watch, call: str, parameters: dict[str, Any]) -> None:
    """What the planner believes, which it has from statistics over all rows."""
    watch.run(f"explain {call}", parameters)


@dataclass(frozen=True)
class Oracle:
    call: str  # with %(guess)s
    right: tuple[str, ...]  # names of parameters, or of chunks, that exist and are hidden
    wrong: str
    known: str = ""  # control: a guess that the attacker may know about, which reads otherwise
    insider: bool = False  # control: bob, who may see the first right guess, tells it from the wrong one
    superuser: str = (
        ""  # control: for a superuser this call, which goes straight to the row, tells them apart
    )
    probe: Probe = answer
    role: str = "reader"

    def ask(
        self, world: World, guess: str, role: str | None = None, token: str | None = None, call: str = ""
    ) -> str:
        with world.watch(role, token) as watch:
            serializable = "isolation level serializable" if self.probe is locks else ""
            watch.run("rollback")
            watch.run(f"begin {serializable}")
            if token:
                watch.run("select pgrag.authenticate(%(token)s)", {"token": token})
            watch.run("set local enable_seqscan = off; set local enable_bitmapscan = off")
            watch.seen.clear()
            self.probe(watch, call or self.call, world.parameters | {"guess": guess})
        return watch.text.replace(guess, "?")


WRONG = canary()
WRONG_CHUNK = WRONG.encode().hex().ljust(64, "0")
CHUNKS = ("chunk a: text", "chunk a: next revision", "chunk a: deleted", "chunk a: staged", "chunk b: text")
WORDS = tuple(
    f"word {name}"
    for name in (
        "a: text",
        "a: title",
        "a: next revision",
        "a: deleted",
        "a: staged",
        "a: wiki text",
        "b: text",
    )
)
DOCUMENTS = ("pay", "deleted", "document_b")
CAN_READ = "select pgrag.can_read('handbook', %(guess)s)"
EXCERPT = "select pgrag.excerpt(%(guess)s)"
QUESTION = (
    "select pgrag.search_json(jsonb_build_object('mode', 'lexical', 'threshold', 0, 'question', %(guess)s))"
)
FILTER = "select pgrag.search_json(jsonb_build_object('mode', 'lexical', 'question', 'refund salary pay', 'filter', jsonb_build_object('{}', {})))"
ASKED = "select pgrag.search_json(jsonb_build_object('mode', 'lexical', 'threshold', 0, 'question', {}))"
PHRASE = ASKED.format("'\"' || %(guess)s || '\" refund'")
EXCLUDED = ASKED.format("'refund -' || %(guess)s")
PROBE = ASKED.format("'refund', 'probes', jsonb_build_array(%(guess)s)")
ORDER = ASKED.format("'refund', 'reranker', 'r', 'order', jsonb_build_array(%(guess)s)")
METADATA = FILTER.format("metadata", "jsonb_build_object('team', %(guess)s)")
DOCUMENT_ROW = "select from pgrag_data.document where tenant_id = %(a_id)s and source_id = any (select source_id from pgrag_data.source) and document = %(guess)s"
CHUNK_ROW = "select from pgrag_data.chunk where tenant_id = %(a_id)s and chunk_id = decode(%(guess)s, 'hex')"
VIEW = "select from pgrag.documents where source = 'handbook' and document = %(guess)s"
VIEW_RANGE = "select from pgrag.documents where document between %(guess)s and %(guess)s || 'x'"
VIEW_PRODUCT = "select from pgrag.documents where product = %(guess)s"

ORACLES = {
    "can_read: a document": Oracle(CAN_READ, DOCUMENTS, WRONG, known="refund.md"),
    "can_read: a source": Oracle("select pgrag.can_read(%(guess)s, 'refund.md')", ("wiki", "source_b"), WRONG, known="handbook"),
    "excerpt": Oracle(EXCERPT, CHUNKS, WRONG_CHUNK, insider=True),
    "excerpt, at another time": Oracle("select pgrag.excerpt(%(guess)s, '2999-01-01')", CHUNKS, WRONG_CHUNK, insider=True),
    "search: a word": Oracle(QUESTION, WORDS, WRONG, known="refund"),
    "search: a word as of a time": Oracle(QUESTION.replace("'threshold'", "'as_of', now(), 'threshold'"), WORDS, WRONG, known="refund"),
    "search: rows": Oracle("select * from pgrag.search(%(guess)s, p_mode => 'lexical', p_threshold => 0)", WORDS, WRONG, known="refund"),
    "filter: source": Oracle(FILTER.format("source", "%(guess)s"), ("wiki", "source_b"), WRONG, known="handbook"),
    "filter: product": Oracle(FILTER.format("product", "%(guess)s"), ("word a: product", "word b: product"), WRONG, insider=True),
    "filter: tags": Oracle(FILTER.format("tags", "jsonb_build_array(%(guess)s)"), ("word a: tag", "word b: tag"), WRONG, insider=True),
    "counters of a filter: source": Oracle(FILTER.format("source", "%(guess)s"), ("wiki", "source_b"), WRONG, probe=counters, known="handbook"),
    "counters of a filter: product": Oracle(FILTER.format("product", "%(guess)s"), ("word a: product", "word b: product"), WRONG, probe=counters, insider=True),
    "counters of a filter: tags": Oracle(FILTER.format("tags", "jsonb_build_array(%(guess)s)"), ("word a: tag", "word b: tag"), WRONG, probe=counters, insider=True),
    "filter: metadata": Oracle(METADATA, ("word a: metadata", "word b: metadata"), WRONG, insider=True),
    "counters of a filter: metadata": Oracle(METADATA, ("word a: metadata", "word b: metadata"), WRONG, probe=counters, insider=True),
    "phrase": Oracle(PHRASE, WORDS, WRONG, known="refund"),
    "counters of a phrase": Oracle(PHRASE, WORDS, WRONG, probe=counters, known="refund"),
    "excluded": Oracle(EXCLUDED, WORDS, WRONG, known="window"),
    "counters of an excluded word": Oracle(EXCLUDED, WORDS, WRONG, probe=counters, known="window"),
    "probe": Oracle(PROBE, WORDS, WRONG, known="trains"),
    "counters of a probe": Oracle(PROBE, WORDS, WRONG, probe=counters, known="trains"),
    "order": Oracle(ORDER, CHUNKS, WRONG_CHUNK, insider=True),
    "counters of an order": Oracle(ORDER, CHUNKS, WRONG_CHUNK, probe=counters, superuser=CHUNK_ROW),
    "locks of an order": Oracle(ORDER, CHUNKS, WRONG_CHUNK, probe=locks, superuser=CHUNK_ROW),
    "space": Oracle("select pgrag.search('x', p_mode => 'dense', p_space => %(guess)s, p_embedding => '[1,0,0]')", ("space_b",), WRONG, known="toy"),
    "counters of can_read": Oracle(CAN_READ, DOCUMENTS, WRONG, probe=counters, superuser=DOCUMENT_ROW),
    "counters of excerpt": Oracle(EXCERPT, CHUNKS, WRONG_CHUNK, probe=counters, superuser=CHUNK_ROW),
    "counters of search": Oracle(QUESTION, WORDS, WRONG, probe=counters, known="refund"),
    "locks of can_read": Oracle(CAN_READ, DOCUMENTS, WRONG, probe=locks, superuser=DOCUMENT_ROW),
    "locks of excerpt": Oracle(EXCERPT, CHUNKS, WRONG_CHUNK, probe=locks, superuser=CHUNK_ROW),
    "locks of search": Oracle(QUESTION, WORDS, WRONG, probe=locks, known="refund"),
    "buffers of can_read": Oracle(CAN_READ, DOCUMENTS, WRONG, probe=plan, superuser=DOCUMENT_ROW),
    "buffers of search": Oracle(QUESTION, WORDS, WRONG, probe=plan, known="refund"),
    "view: rows": Oracle(VIEW, DOCUMENTS, WRONG, role="browser", known="refund.md"),
    "view: plan": Oracle(VIEW, DOCUMENTS, WRONG, role="browser", probe=plan, superuser=DOCUMENT_ROW),
    "view: plan of a range": Oracle(VIEW_RANGE, DOCUMENTS, WRONG, role="browser", probe=plan, superuser=DOCUMENT_ROW),
    "view: counters": Oracle(VIEW, DOCUMENTS, WRONG, role="browser", probe=counters, superuser=DOCUMENT_ROW),
    "view: counters of a source": Oracle("select from pgrag.documents where source = %(guess)s", ("wiki", "source_b"), WRONG, role="browser", probe=counters, known="handbook"),
    "view: locks": Oracle(VIEW, DOCUMENTS, WRONG, role="browser", probe=locks, superuser=DOCUMENT_ROW),
    "view: estimates": Oracle(VIEW_PRODUCT, ("word a: product",), WRONG, role="browser", probe=estimate, superuser="select from pgrag_data.revision where product = %(guess)s"),
    "writer: a reader": Oracle("select pgrag.set_access('refund.md', array[%(guess)s])", ("user_b", "group_b"), WRONG, role="writer", known="bob"),
    "writer: a document elsewhere": Oracle("select pgrag.list_revisions(%(guess)s)", ("pay_wiki", "document_b"), WRONG, role="writer", known="refund.md"),
    "writer: a source": Oracle("select pgrag.list_revisions('refund.md', %(guess)s)", ("wiki", "source_b"), WRONG, role="writer", known="handbook"),
    "writer: a space": Oracle("select pgrag.stage_revision('x.md', 'x', p_space => %(guess)s)", ("space_b",), WRONG, role="writer", known="toy"),
    "writer: a space to fill": Oracle("select pgrag.missing_embeddings(%(guess)s)", ("space_b",), WRONG, role="writer", known="toy"),
    "writer: a document to fill": Oracle("select pgrag.add_embeddings(%(guess)s, (select revision from pgrag.list_revisions('refund.md') where active), 'toy', 1, '{\"[1,0.2,0]\"}')", ("pay_wiki", "document_b"), WRONG, role="writer", known="refund.md"),
    "counters of a document to fill": Oracle("select pgrag.add_embeddings(%(guess)s, 'r1', 'toy', 1, '{\"[1,0.2,0]\"}')", ("pay_wiki", "document_b"), WRONG, role="writer", probe=counters, known="refund.md"),
    "counters of a space to fill": Oracle("select pgrag.missing_embeddings(%(guess)s)", ("space_b",), WRONG, role="writer", probe=counters, known="toy"),
    "admin: a principal": Oracle("select pgrag.drop_principal(%(guess)s)", ("user_b", "group_b"), WRONG, role="admin", known="bob"),
    "admin: a member": Oracle("select pgrag.put_membership(%(group)s, %(guess)s)", ("user_b", "group_b"), WRONG, role="admin", known="alice"),
    "admin: a source": Oracle("select pgrag.list_revisions('refund.md', %(guess)s)", ("source_b",), WRONG, role="admin", known="handbook"),
    "admin: a document": Oracle("select pgrag.list_revisions(%(guess)s, 'handbook')", ("document_b",), WRONG, role="admin", known="refund.md"),
}  # fmt: skip


@pytest.mark.contract("A3", "A7", "A9", "A10")
@pytest.mark.parametrize("name", ORACLES)
def test_oracle(world: World, name: str) -> None:
    oracle = ORACLES[name]
    values = world.parameters | {"deleted": world.deleted}
    values |= {f"chunk {name}": chunk_id for name, chunk_id in world.chunks.items()}
    values |= {
        f"word {name}": secret.value.decode()
        for name, secret in world.secrets.items()
        if secret.value.isascii()
    }
    token = world.token(oracle.role)
    wrong = oracle.ask(world, oracle.wrong, oracle.role, token)
    for guess in oracle.right:
        assert oracle.ask(world, values[guess], oracle.role, token) == wrong, guess

    # control
    if oracle.known:
        assert oracle.ask(world, oracle.known, oracle.role, token) != wrong
    if oracle.insider:
        bob = world.database.token("a", "bob")
        assert oracle.ask(world, values[oracle.right[0]], oracle.role, bob) != oracle.ask(
            world, oracle.wrong, oracle.role, bob
        )
    if oracle.superuser:
        told = [
            oracle.ask(world, guess, call=oracle.superuser)
            for guess in (values[oracle.right[0]], oracle.wrong)
        ]
        assert told[0] != told[1]


def test_every_secret_can_be_found(world: World) -> None:
    """Control: each secret is in the database, in a spelling that the search for it knows."""
    with world.watch() as watch:
        tables = watch.connection.execute(
            "select oid::regclass::text from pg_class where relkind = 'r' and relnamespace::regnamespace::text ~ 'pgrag'"
        ).fetchall()
        for (table,) in tables:
            assert watch.run(f"select t::text from {table} t") == ""
        assert set(world.leaks(watch.text)) == set(world.secrets) - {
            "key 0"
        }  # the key itself is nowhere, its pads are
        for name, secret in world.secrets.items():  # and where the server prints plans, it is found in them
            assert (
                watch.run(
                    "set client_min_messages = log; set debug_print_plan = on; set debug_pretty_print = off"
                )
                == ""
            )
            watch.seen.clear()
            watch.run(
                "select %(value)s",
                {"value": secret.value.decode() if secret.value.isascii() else secret.value},
            )
            assert secret.spellings[1] in " ".join(watch.text.split()), name


def test_the_table_is_wide() -> None:
    assert len(ATTACKS) >= 45
    assert len({attack.category for attack in ATTACKS}) >= 25
    names = [(attack.category, attack.name) for attack in ATTACKS]
    assert len(set(names)) == len(names)
