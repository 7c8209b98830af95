"""The SQL that the proof of hostile SQL draws: typed expressions over all that the server has, and everything else that a session can send."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.access.forge import BAD_TOKENS
from tests.support import ROLES, Database

# They end sessions, sleep, write files or fill memory, and say nothing.
BARRED = re.compile(
    r"pg_(sleep|terminate_backend|cancel_backend|promote|wal_replay|rotate|reload_conf|switch_wal|stat_reset|advisory|try_advisory|logical_emit|"
    r"restore_|set_|clear_|create_|drop_|copy_|replication_slot|sync_|import_|notify|log_|current_logfile|rotate|export_snapshot|collation_actual)|"
    r"^(lo|lowrite|loread|repeat|lpad|rpad|generate_series|array_fill|setseed|setval|nextval|factorial|power|dpow|numeric_power|pow|exp|dexp|"
    r"numeric_exp|set_config|random_normal|ts_stat|binary_upgrade|.*_to_xml.*|cursor_to|lseg|poly|circle|brin_|gin_|gist_|bt.*sort|.*_desummarize.*)|"
    r"^lo_|_handler$|_(recv|in|out|send)$"
)

# ---- what the server has -------------------------------------------------------------------------------------------

LITERALS: dict[str, tuple[str, ...]] = {
    "text": ("'refund'", "'handbook'", "'%'", "''", "'.*'", "'zq'", "'a'", "'$.**'", "'1'", "'2020-01-01'", "null", "'pgrag_data.chunk'", "'travel.md'", "'refund.md'", "chr(0x301)"),
    "name": ("'chunk'::name", "current_user", "'pgrag_data'::name", "current_schema"),
    "integer": ("0", "1", "2", "-1", "7", "1000", "2147483647", "null::int"),
    "bigint": ("0::bigint", "1::bigint", "9223372036854775807", "-1::bigint", "42::bigint"),
    "smallint": ("1::smallint", "-1::smallint"),
    "oid": ("'pg_class'::regclass::oid", "1259::oid", "0::oid", "(select oid from pg_class where relname = 'chunk' limit 1)", "(select max(oid) from pg_proc)"),
    "regclass": ("'pg_class'::regclass", "(select oid::regclass from pg_class where relname = 'document' limit 1)", "(select indexrelid::regclass from pg_index order by 1 desc limit 1)"),
    "regproc": ("(select oid::regproc from pg_proc where proname = 'search_scope' limit 1)", "'now'::regproc"),
    "boolean": ("true", "false", "null::boolean"),
    "jsonb": ("""'{"a": [1, {"b": null}]}'::jsonb""", "'[]'::jsonb", "'null'::jsonb", "to_jsonb('refund'::text)"),
    "json": ("""'{"a": 1}'::json""", "'[1,2]'::json"),
    "jsonpath": ("'$.**'::jsonpath", """'$.* ? (@ like_regex "zq7")'::jsonpath"""),
    "double precision": ("0.5::float8", "'nan'::float8", "'infinity'::float8", "-1e300::float8", "1::float8"),
    "real": ("0.5::real", "'nan'::real"),
    "numeric": ("1.5", "'nan'::numeric", "0.0", "12345678901234567890"),
    "timestamp with time zone": ("now()", "'infinity'::timestamptz", "'2020-01-01'::timestamptz", "'epoch'::timestamptz"),
    "date": ("current_date", "'infinity'::date", "'2024-02-29'::date"),
    "interval": ("'1 day'::interval", "'-1 month'::interval", "interval '0'"),
    "bytea": ("'\\x00ff'::bytea", "sha256('a')", "convert_to('refund', 'utf8')"),
    "text[]": ("'{}'::text[]", "array['refund', 'alice', null]", "current_schemas(true)::text[]"),
    "integer[]": ("'{}'::int[]", "array[1, 2, null]"),
    "bigint[]": ("array[1::bigint, 2]",),
    "vector": ("'[1,0.2,0]'::vector", "'[0,0,0]'::vector", "'[1,2]'::vector"),
    "halfvec": ("'[1,0.2,0]'::halfvec",),
    "sparsevec": ("'{1:1}/3'::sparsevec",),
    "tsvector": ("to_tsvector('english', 'The refund window')", "''::tsvector"),
    "tsquery": ("'refund'::tsquery", "to_tsquery('simple', 'zq7:*')"),
}  # fmt: skip
CASTS = {  # always or mostly allowed, from whatever there is
    "text": tuple(LITERALS), "boolean": ("text", "integer"), "integer": ("text", "double precision", "boolean", "jsonb"), "bigint": ("text", "integer", "oid"),
    "numeric": ("text", "integer", "jsonb"), "double precision": ("text", "numeric", "integer"), "date": ("text", "timestamp with time zone"),
    "timestamp with time zone": ("text", "date"), "jsonb": ("text", "json"), "bytea": ("text",), "oid": ("text", "bigint"), "name": ("text",),
    "regclass": ("text", "oid"), "vector": ("text", "halfvec"), "tsquery": ("text",), "tsvector": ("text",), "text[]": ("text",), "interval": ("text",),
    "jsonpath": ("text",), "regproc": ("text",), "json": ("text", "jsonb"), "integer[]": ("text",),
}  # fmt: skip


@dataclass(frozen=True)
class Relation:
    name: str
    columns: tuple[tuple[str, str], ...]
    rows: bool = True  # whether a role can have some
    heavy: bool = False  # a view over half of the catalog


@dataclass(frozen=True)
class Function:
    name: str
    schema: str
    arguments: tuple[tuple[str, str, bool], ...]  # name, type, whether it has a default
    result: str
    set: bool
    columns: tuple[tuple[str, str], ...] = ()  # of the rows it gives
    roles: frozenset[str] = frozenset()
    immutable: bool = False


@dataclass
class Catalog:
    """What can be named, as a superuser finds it: an attacker knows the source of pgrag, which is public."""

    open: list[Relation] = field(default_factory=list)
    closed: list[Relation] = field(default_factory=list)
    views: list[Relation] = field(default_factory=list)
    by_result: dict[str, list[Function]] = field(default_factory=dict)
    sets: list[Function] = field(default_factory=list)
    aggregates: dict[str, list[Function]] = field(default_factory=dict)
    windows: dict[str, list[Function]] = field(default_factory=dict)
    operators: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    public: list[Function] = field(default_factory=list)
    private: list[Function] = field(default_factory=list)
    settings: list[tuple[str, str, Sequence[str] | None, str, str]] = field(default_factory=list)
    about_ids: list[str] = field(default_factory=list)  # functions of an oid that say something of an object

    @classmethod
    def read(cls, database: Database) -> Catalog:
        found = cls()
        with database.superuser() as superuser:
            for schema, name, names, types in superuser.execute("""
                select n.nspname, c.oid::regclass::text, array_agg(quote_ident(attname) order by attnum),
                       array_agg(format_type(atttypid, null) order by attnum)
                  from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on attrelid = c.oid and attnum > 0 and not attisdropped
                 where c.relkind in ('r', 'v', 'p', 'm', 'S') and (n.nspname in ('pg_catalog', 'information_schema') or n.nspname ~ '^pgrag')
                 group by 1, 2, c.oid order by 2"""):
                where = found.views if schema == "pgrag" else found.closed if schema.startswith("pgrag") else found.open
                where.append(Relation(name, tuple(zip(names, types, strict=True)), heavy=schema == "information_schema"))
            for row in superuser.execute("""
                select p.proname, n.nspname, p.prokind::text, p.proretset, format_type(p.prorettype, null),
                       coalesce(p.proargnames, '{}'), coalesce(p.proargmodes::text[], '{}'), p.pronargdefaults,
                       array(select format_type(t, null) from unnest(p.proargtypes) with ordinality as u (t, o) order by o),
                       array(select format_type(t, null) from unnest(p.proallargtypes) with ordinality as u (t, o) order by o),
                       array(select r from unnest(%s::text[]) r where has_function_privilege('app_' || r, p.oid, 'execute')), p.provolatile = 'i'
                  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
                 where p.prokind in ('f', 'a', 'w') and (n.nspname in ('pg_catalog', 'public') or n.nspname ~ '^pgrag')
                 order by 2, 1, p.oid""", (list(ROLES),)):  # fmt: skip
                found._function(*row)
            for name, left, right, result in superuser.execute("""
                select oprname, case oprleft when 0 then '' else format_type(oprleft, null) end, format_type(oprright, null), format_type(oprresult, null)
                  from pg_operator order by oid"""):
                if {left, right} - {""} <= LITERALS.keys():
                    found.operators.setdefault(result, []).append((name, left, right))
            found.settings = superuser.execute("""
                select name, vartype, enumvals, coalesce(min_val, '0'), coalesce(max_val, '0') from pg_settings
                 where context in ('user', 'superuser') and name !~ 'timeout|exit_on_error|post_auth|transaction_(read|def|iso)|work_mem|_encoding|lc_|backtrace|log_executor|jit'
                 order by 1""").fetchall()
        return found

    def _function(self, name: str, schema: str, kind: str, many: bool, result: str, names: Sequence[str], modes: Sequence[str],
                  defaults: int, types: Sequence[str], all_types: Sequence[str], roles: Sequence[str], immutable: bool) -> None:  # fmt: skip
        count = len(types)
        given = tuple((names[n] if n < len(names) else "", types[n], n >= count - defaults) for n in range(count))
        columns = tuple((f'"{n}"', t) for n, t, m in zip(names, all_types, modes, strict=False) if m in "tob") if modes else ()
        function = Function(f"{schema}.{name}" if schema != "pg_catalog" else name, schema, given, result, many, columns, frozenset(roles), immutable)
        if schema.startswith("pgrag"):
            (self.public if schema == "pgrag" else self.private).append(function)
        elif BARRED.search(name) or not set(types) <= LITERALS.keys() | {"anyelement", "anyarray", "any"}:
            return
        elif kind == "a":
            self.aggregates.setdefault(result, []).append(function)
        elif kind == "w":
            self.windows.setdefault(result, []).append(function)
        elif many:
            self.sets.append(function)
        elif set(types) <= LITERALS.keys():
            self.by_result.setdefault(result, []).append(function)
            if types == ["oid"] and (name.startswith(("pg_get", "pg_relation", "pg_stat_get")) or "size" in name):
                self.about_ids.append(name)

    def pure(self) -> Catalog:
        """Without what says other things in another database, or at another time."""
        kept = {kind: [f for f in functions if f.immutable] for kind, functions in self.by_result.items()}
        return replace(self, open=[], closed=[], by_result={kind: functions for kind, functions in kept.items() if functions}, sets=[f for f in self.sets if f.immutable])


# ---- the grammar ---------------------------------------------------------------------------------------------------

Scope = list[tuple[str, str]]  # expressions for columns in reach, and their types
MODES = ("lexical", "dense", "hybrid")
SEARCHES = ("pgrag.search", "pgrag.search_json", "pgrag.packet", "pgrag.packet_json")
EMBEDDINGS = ([1, 0.2, 0], [0, 0.2, 1], [-1, -1, -1])
WORDS = ("refund", "window", "salary of carol", "trains hotels", "pay", "draft", "zq7", "the", "30 days", "120 a night")
PRIVATE_CALLS = ("pgrag_private.internal_mac('session', 'v1')", "pgrag_private.browse_revisions()", "pgrag_private.browse_tenant()", "pgrag_private.scope(1, 1, null, null)",
                 "pgrag_private.current_principal()", "pgrag_private.transaction_mark()", "pgrag_private.closure(1, 1)")  # fmt: skip
FILES = ("pg_read_file('PG_VERSION')", "pg_ls_dir('.')", "pg_stat_file('base')", "pg_read_binary_file('global/pg_control', 0, 10)", "pg_ls_logdir()", "pg_ls_waldir()", "pg_ls_tmpdir()",
         "lo_import('/etc/passwd')", "lo_export(1, '/tmp/x')", "pg_file_read('x', 0, 1)", "pg_current_logfile()", "pg_hba_file_rules()", "pg_logdir_ls()")  # fmt: skip
OPTIONS = ("analyze", "verbose", "buffers", "settings", "wal", "costs off", "timing off", "summary", "format json", "format xml", "format yaml", "memory", "serialize text", "generic_plan")
SHOWN = ("pg_get_functiondef", "pg_get_viewdef", "pg_get_constraintdef", "pg_get_indexdef", "pg_get_triggerdef", "pg_get_ruledef", "pg_get_userbyid", "pg_get_statisticsobjdef",
         "pg_get_function_arguments", "pg_get_partkeydef", "pg_relation_filepath", "pg_relation_size", "pg_total_relation_size", "obj_description")  # fmt: skip
OWNERS = ("pgrag_engine", "pgrag_owner", "pgrag_viewer", "pgrag_admin", "pgrag_operator", "app_admin", "postgres", "pg_read_all_data", "pg_monitor", "none", "current_user")


class Grammar:
    """Statements of one session: what an application of ``role`` could be made to run."""

    def __init__(self, catalog: Catalog, dice: random.Random, role: str, token: str, guesses: Sequence[str], packet: str) -> None:
        self.catalog, self.dice, self.role, self.token, self.packet = catalog, dice, role, token, packet
        self.guesses = [quote(guess) for guess in guesses]
        self.own = [f for f in catalog.public if role in f.roles]
        self.searches = [f for f in self.own if f.name in SEARCHES]
        self.pure = not catalog.open
        self.own_rows = [f for f in self.own if f.columns and not VOLATILE.search(f.name)]

    # -- expressions --

    def literal(self, kind: str) -> str:
        if kind == "text" and self.guesses and self.dice.random() < 0.3:
            return self.dice.choice(self.guesses)
        known = LITERALS.get(kind, ())
        return self.dice.choice([one for one in known if not self.pure or not IMPURE.search(one)] or (f"null::{kind}",))

    def expression(self, kind: str, scope: Scope, depth: int) -> str:
        dice = self.dice
        roll = dice.random()
        if roll < 0.45 or depth <= 0:
            same = [name for name, type_ in scope if type_ == kind]
            if same and dice.random() < 0.85:
                return dice.choice(same)
            if scope and dice.random() < 0.5:
                name, _ = dice.choice(scope)
                if kind == "text":
                    return f"{name}::text"
                if kind in CASTS and dice.random() < 0.2:  # an error that would quote the value
                    return f"{name}::text::{kind}"
            return self.literal(kind)
        if roll < 0.65 and (known := self.catalog.by_result.get(kind)):
            function = dice.choice(known)
            return f"{function.name}({', '.join(self.expression(t, scope, depth - 1) for _, t, _ in function.arguments)})"
        if roll < 0.8 and (known := self.catalog.operators.get(kind)):
            operator, left, right = dice.choice(known)
            return f"({left and self.expression(left, scope, depth - 1)} {operator} {self.expression(right, scope, depth - 1)})"
        if roll < 0.86 and kind in CASTS:
            return f"({self.expression(dice.choice(CASTS[kind]), scope, depth - 1)})::{kind}"
        if roll < 0.93:
            parts = self.expression(kind, scope, depth - 1), self.expression(kind, scope, depth - 1)
            condition = self.expression("boolean", scope, depth - 1)
            return dice.choice((f"case when {condition} then {parts[0]} else {parts[1]} end", f"coalesce({parts[0]}, {parts[1]})", f"nullif({parts[0]}, {parts[1]})"))
        if roll < 0.96:
            return f"(select x from ({self.select([kind], scope, depth - 2)}) as one (x) limit 1)"
        if kind == "boolean":
            return dice.choice((f"exists ({self.select(None, scope, depth - 2)})", self.predicate(scope)))
        return f"(array[{self.expression(kind, scope, depth - 1)}])[1]"

    def predicate(self, scope: Scope) -> str:
        """A condition that speaks of a row when it is given one: by an error, a notice or time."""
        text = f"{self.dice.choice(scope)[0]}::text" if scope else "'x'"
        return self.dice.choice((
            f"({text})::integer = 1", f"({text})::date > now()", f"1 / (length({text}) - length({text})) = 1", f"{text} ~ ('(' || {text})", f"({text})::jsonb is not null",
            f"set_config('a.b', {text}, false)::integer is null", f"('$ ? (@ like_regex \"(' || {text} || '\")')::jsonpath is null", f"{text} like '%zq7%'", f"({text})::regclass is null",
            f"({text})::xml is null", f"({text})::vector is null", f"pg_notify({text}, {text}) is null", f"to_tsquery({text}) is null", f"({text})::bytea is null", f"chr(-length({text})) = ''",
            f"case when {text} like '%zq7%' then ({text})::integer end = 1", f"case when {text} like '%zq7%' then ({text})::date end is null",
            f"case when {text} like 'zq%' then 1 / 0 end = 1", f"has_table_privilege({text}, 'select')", f"current_setting({text}) = ''", f"{text}::money is null", f"{text}::int4range is null",
        ))  # fmt: skip

    # -- relations --

    def item(self, alias: str, scope: Scope, depth: int) -> tuple[str, Scope]:
        """Something to select from, and its columns."""
        dice, roll = self.dice, self.dice.random()
        if self.pure:
            roll = dice.choice((0, 0, 0, 0.45, 0.8, 0.95))
        if self.role == "browser" and roll < 0.55:
            relation = dice.choice(self.catalog.views)
            return f"{relation.name} as {alias}{self.sample()}", columns(alias, relation.columns)
        if self.own_rows and roll < (0.25 if self.role == "reader" else 0.45):
            function = dice.choice(self.own_rows)
            return f"{self.call(function, scope, depth)} as {alias}", columns(alias, function.columns)
        if roll < 0.65 and not self.pure:
            relation = dice.choice(self.catalog.open)
            if relation.heavy and dice.random() < 0.9:
                relation = dice.choice(self.catalog.open)
            about = " where schemaname like 'pgrag%'" if any(name == "schemaname" for name, _ in relation.columns) and dice.random() < 0.6 else ""
            if dice.random() < 0.9:
                return f"(select * from {relation.name}{about} limit {dice.choice((1, 3, 10, 20))}) as {alias}", columns(alias, relation.columns)
            return f"{relation.name} as {alias}{self.sample()}", columns(alias, relation.columns)
        if roll < 0.75 and not self.pure:
            relation = dice.choice(self.catalog.closed)
            return f"{relation.name} as {alias}{self.sample()}", columns(alias, relation.columns)
        if roll < 0.8:
            function = dice.choice(self.catalog.sets)
            given = ", ".join(self.expression("text" if t.startswith("any") else t, scope, 0) for _, t, _ in function.arguments)
            return f"{function.name}({given}) as {alias}", [(f"{alias}::text", "text")]
        if roll < 0.9 and depth > 0:
            kinds = [dice.choice(("text", "integer", "boolean", "jsonb", "bigint")) for _ in range(dice.randint(1, 3))]
            named = [(f"c{n}", kind) for n, kind in enumerate(kinds)]
            return f"({self.select(kinds, scope, depth - 1)}) as {alias} ({', '.join(n for n, _ in named)})", columns(alias, named)
        return dice.choice((
            (f"generate_series(1, {dice.choice((1, 3, 10))}) as {alias} (n)", [(f"{alias}.n", "integer")]),
            (f"unnest(array['refund.md', 'pay', null, 'alice']) as {alias} (w)", [(f"{alias}.w", "text")]),
            (f"(values (1, 'refund', true), (2, null, false)) as {alias} (n, w, b)", [(f"{alias}.n", "integer"), (f"{alias}.w", "text"), (f"{alias}.b", "boolean")]),
        ))  # fmt: skip

    def sample(self) -> str:
        return " tablesample system (100)" if self.dice.random() < 0.02 else ""

    def call(self, function: Function, scope: Scope, depth: int) -> str:
        if function.name in SEARCHES:
            return self.search(function, scope, depth)
        given = [f"{name} => {self.argument(function, name, kind, scope, depth)}" if name else self.expression(kind, scope, 0)
                 for name, kind, default in function.arguments if not default or self.dice.random() < 0.35]  # fmt: skip
        return f"{function.name}({', '.join(given)})"

    def argument(self, function: Function, name: str, kind: str, scope: Scope, depth: int) -> str:
        dice = self.dice
        if dice.random() < 0.06:
            return self.expression(kind, scope, depth)
        match name:
            case "p_token":
                if dice.random() < 0.85:
                    return quote(self.token)
                builder, _ = BAD_TOKENS[dice.choice(list(BAD_TOKENS))]
                return quote(builder("a", "bob"))
            case "p_question":
                return quote(self.question())
            case "p_packet":
                return f"{quote(self.mutated_packet())}::jsonb"
            case "p_reply":
                return f"{quote(json.dumps(dice.choice(({'answer': 'x', 'citations': [{'id': 'e1', 'quote': 'is'}]}, {'answer': '', 'citations': []}, [], None))))}::jsonb"
            case "p_limit":
                return str(dice.choice((1, 5, 50, 100, 0)))
            case "p_space":
                return quote(dice.choice(("toy", "toy", "x")))
            case "p_source":
                return quote(dice.choice(("handbook", "handbook", "x")))
            case "p_tenant":
                return quote(dice.choice(("a", "a", "x", "b")))
            case "p_document":
                return dice.choice((*self.guesses, "'refund.md'", "'travel.md'", "'new.md'"))
            case "p_group" | "p_member" | "p_name":
                return dice.choice((*self.guesses, "'alice'", "'bob'", "'everyone'", "'x'"))
            case "p_chunk_id":
                return dice.choice((*self.guesses, "repeat('0', 64)", "'x'"))
            case "p_keep":
                return "interval '0'"
        return self.literal(kind)

    def question(self) -> str:
        dice = self.dice
        words = dice.sample(WORDS, dice.randint(1, 3)) + [guess.strip("'") for guess in dice.sample(self.guesses, min(1, len(self.guesses)))]
        text = " ".join(dice.choice(("{}", "{}", '"{}"', "-{}", "{}:*", "({})", "!{}")).format(word) for word in words)
        return text

    def filter(self) -> dict[str, Any]:
        dice = self.dice
        value = dice.choice((*(guess.strip("'") for guess in self.guesses), "handbook", "%", "zq7", "a' or 'a'='a"))
        return dice.choice(({"source": value}, {"tags": [value]}, {"product": value}, {"metadata": {"team": value}}, {"tenant": value}, {"source": [value, "handbook"]}, {}))

    def search(self, function: Function, scope: Scope, depth: int) -> str:
        """A call that is well formed for the most part: what is refused at the door says nothing of the search behind it."""
        dice = self.dice
        request = self.request(function.name.startswith("pgrag.packet"))
        given = {"p_request": valued(request)} if function.name.endswith("_json") else {f"p_{name}": valued(value) for name, value in request.items()}
        if dice.random() < 0.35:
            given["p_token"] = self.argument(function, "p_token", "text", scope, depth)
        if dice.random() < (0.3 if scope else 0.08):  # one argument of any kind, or from a row beside it
            name, kind, _ = dice.choice(function.arguments)
            given[name] = self.expression(kind, scope, depth)
        return f"{function.name}({', '.join(f'{name} => {value}' for name, value in given.items())})"

    def request(self, packet: bool) -> dict[str, Any]:
        dice = self.dice
        request: dict[str, Any] = {"question": self.question(), "mode": dice.choice(MODES), "threshold": dice.choice((0, 0, 0, 0.2))}
        if request["mode"] != "lexical":
            request |= {"embedding": dice.choice(EMBEDDINGS), "space": "toy"}
        for name, values in (("k", (1, 5, 20, 100)), ("isolation", ("auto", "strict")), ("fusion", ("rrf", "convex")), ("as_of", ("2999-01-01T00:00:00Z", "2020-01-01T00:00:00Z")),
                             ("candidates", (100, 1000)), ("profile", ("normal", "retry")), ("per_document", (1, 3)), ("per_source", (1, 5))):  # fmt: skip
            if dice.random() < 0.15:
                request[name] = dice.choice(values)
        if dice.random() < 0.15:
            request["probes"] = dice.choice((["salary"], ["zq7", "refund"], [self.question()]))
            if request["mode"] == "dense" or (request["mode"] == "hybrid" and dice.random() < 0.5):
                request["probe_embeddings"] = [dice.choice(EMBEDDINGS) for _ in request["probes"]]
        if dice.random() < 0.1:  # of chunks that it may see, and of others
            seen = [excerpt["chunk_id"] for excerpt in json.loads(self.packet)["excerpts"]]
            request |= {"order": [*seen, *(guess.strip("'") for guess in self.guesses), "0" * 64], "reranker": "r"}
        if dice.random() < 0.15:
            request["filter"] = self.filter()
        if packet and dice.random() < 0.5:
            request |= {"budget": dice.choice((200, 8000)), "budget_unit": dice.choice(("characters", "bytes", "tokens")), "reserve": dice.choice((0, 50)), "strict": dice.random() < 0.3}
        return request

    def mutated_packet(self) -> str:
        packet = json.loads(self.packet)
        if self.dice.random() < 0.5:
            packet[self.dice.choice(list(packet))] = self.dice.choice((None, [], "x", 1, {}))
        return json.dumps(packet)

    # -- queries --

    def select(self, kinds: Sequence[str] | None = None, outer: Scope = (), depth: int = 2) -> str:
        dice = self.dice
        if depth > 0 and dice.random() < 0.06:
            return f"with {dice.choice(('', 'recursive ', ''))}q as {dice.choice(('', 'materialized ', 'not materialized '))}({self.select(None, outer, depth - 1)}) {self.select(kinds, outer, depth - 1)}"
        kinds = kinds or [dice.choice(("text", "text", "integer", "bigint", "boolean", "jsonb", "double precision", "text[]", "bytea", "vector")) for _ in range(dice.randint(1, 3))]
        if depth > 0 and dice.random() < 0.06:
            word = dice.choice(("union", "union all", "intersect", "except", "except all"))
            return f"({self.select(kinds, outer, depth - 1)}) {word} ({self.select(kinds, outer, depth - 1)})"
        source, scope = self.item("t0", list(outer), depth)
        if dice.random() < 0.2:
            more, other = self.item("t1", [*outer, *scope], depth - 1)
            scope = scope + other
            if dice.random() < 0.3:
                source = f"{source} {dice.choice(('left join', 'full join', 'join'))} {more} on {self.expression('boolean', scope, 1)}"
            else:
                source += dice.choice((", ", " cross join ")) + ("lateral " if more.startswith("(select") and dice.random() < 0.5 else "") + more
        where = ""
        if dice.random() < 0.35:
            where = f" where {self.expression('boolean', [*scope, *outer], depth - 1) if dice.random() < 0.5 else self.predicate(scope)}"
        roll = dice.random()
        if roll < 0.15:  # aggregates over everything
            targets = ", ".join(self.aggregate(kind, scope) for kind in kinds)
            group = f" group by {dice.choice(scope)[0]}::text" if dice.random() < 0.3 else ""
            having = " having count(*) > 0" if dice.random() < 0.1 else ""
            return f"select {targets} from {source}{where}{group}{having}"
        targets = ", ".join(self.target(kind, [*scope, *outer], depth) for kind in kinds)
        order = f" order by {dice.choice(('1', '1 desc', '1' if self.pure else 'random()', self.expression('text', scope, 1)))}" if dice.random() < 0.15 else ""
        limit = f" limit {dice.choice((1, 5, 20))}" if dice.random() < 0.7 else " limit 60"
        lock = dice.choice((" for update", " for share skip locked", " for no key update nowait")) if dice.random() < 0.01 and depth == 2 else ""
        return f"select {'distinct ' if dice.random() < 0.05 and not order else ''}{targets} from {source}{where}{order}{limit}{lock}"

    def target(self, kind: str, scope: Scope, depth: int) -> str:
        roll = self.dice.random()
        if roll < 0.08 and (known := self.catalog.windows.get(kind)):
            function = self.dice.choice(known)
            given = ", ".join(self.expression(t, scope, 0) for _, t, _ in function.arguments)
            return f"{function.name}({given}) over (order by {self.expression('text', scope, 0)})"
        if roll < 0.12:
            called = self.aggregate(kind, scope)
            called, cast = called.rsplit("::", 1) if called.endswith(f")::{kind}") else (called, kind)
            if "order by" not in called:
                return f"({called} over (partition by {self.expression('text', scope, 0)}))::{cast}"
        return self.expression(kind, scope, depth - 1)

    def aggregate(self, kind: str, scope: Scope) -> str:
        dice = self.dice
        text = self.expression("text", scope, 1)
        if kind == "text" and dice.random() < 0.7:
            return dice.choice((f"string_agg({text}, ',')", f"min({text})", f"max({text})", f"array_agg({text})::text", f"json_agg({text})::text", f"xmlagg(xmlelement(name x, {text}))::text",
                                f"mode() within group (order by {text})", f"string_agg({text}, '' order by {text}) filter (where {text} like '%7%')"))  # fmt: skip
        if kind == "jsonb" and dice.random() < 0.6:
            return dice.choice((f"jsonb_agg({text})", f"jsonb_object_agg({text}, {text})", "jsonb_agg(t0)"))
        if known := self.catalog.aggregates.get(kind):
            function = dice.choice(known)
            given = [self.expression({"anyelement": "text", "any": "text", "anyarray": "text[]"}.get(t, t), scope, 1) for _, t, _ in function.arguments]
            return f"{function.name}({', '.join(given) or '*'})"
        return f"min({text})::{kind}"

    # -- statements; each gives the statements of a unit --

    def unit(self) -> tuple[str, list[str]]:
        """A kind, and statements that belong together."""
        kind = self.dice.choice(PURE) if self.pure else self.dice.choices(KINDS, KIND_WEIGHTS)[0]
        return kind, getattr(self, f"_{kind}")()

    def _query(self) -> list[str]:
        return [self.select()]

    def _row(self) -> list[str]:
        """Whole rows, by whatever spelling."""
        source, scope = self.item("t0", [], 1)
        form = self.dice.choice(("t0", "t0.*", "t0::text", "to_jsonb(t0)", "row_to_json(t0)", "md5(t0::text)", "hashtext(t0::text)", "count(*)", "encode(convert_to(t0::text, 'utf8'), 'base64')",
                                 "convert_to(t0::text, 'utf8')", "t0.ctid, t0.xmin, t0.tableoid", "t0::text::integer", "quote_literal(t0)", "length(t0::text)", "reverse(t0::text)", "string_to_array(t0::text, null)",
                                 "encode(convert_to(reverse(t0::text), 'utf8'), 'hex')", f"substr(t0::text, {self.dice.randint(1, 60)}, 12)"))  # fmt: skip
        where = f" where {self.predicate(scope)}" if self.dice.random() < 0.2 else ""
        return [f"select {form} from {source}{where} limit 40"]

    def _call(self) -> list[str]:
        dice = self.dice
        function = dice.choice(self.own) if dice.random() < 0.85 else dice.choice(self.catalog.public + self.catalog.private)
        called = self.call(function, [], 1)
        return self.asked(called, bool(function.columns) or dice.random() < 0.6)

    def _search(self) -> list[str]:
        """A search or a packet; whoever may not have one calls something else."""
        if not self.searches:
            return self._call() if self.role != "browser" else self._row()
        return self.asked(self.call(self.dice.choice(self.searches), [], 1), self.dice.random() < 0.85)

    def asked(self, called: str, whole: bool) -> list[str]:
        if whole or self.pure:
            return [f"select * from {called}"]
        return [self.dice.choice(("select {}", "select ({})::text::integer", "select length(({})::text)", "select jsonb_path_query(to_jsonb({}), '$.**')")).format(called)]

    def _private(self) -> list[str]:
        dice = self.dice
        relation = dice.choice(self.catalog.closed)
        column = dice.choice(relation.columns)[0]
        return [dice.choice((
            f"select {column} from {relation.name}", f"select * from {relation.name} limit 5", f"table {relation.name}", f"select count({column}) from {relation.name} where {self.predicate([(column, 'text')])}",
            f"select null::{relation.name}", f"select jsonb_populate_record(null::{relation.name}, '{{}}')", f"select * from {dice.choice(PRIVATE_CALLS)} as x",
            f"select query_to_xml('select * from {relation.name}', true, false, '')", f"select * from ts_stat('select {column}::text::tsvector from {relation.name}')",
            f"select currval('{relation.name}_id_seq')", f"select * from {relation.name} for share", f"select pg_relation_size('{relation.name}')", f"select col_description('{relation.name}'::regclass, 1)",
            f"select {column} from {relation.name} tablesample bernoulli (50) repeatable (1)", f"select * from only {relation.name}", f"explain analyze select * from {relation.name}",
            f"select has_table_privilege('{relation.name}', 'select'), has_any_column_privilege('{relation.name}', 'select')", f"select '{relation.name}'::regclass::oid, to_regclass('{relation.name}')",
        ))]  # fmt: skip

    def _about(self) -> list[str]:
        """What the catalogs say of objects, and the statistics of tables."""
        dice = self.dice
        where = dice.choice(("relnamespace::regnamespace::text ~ 'pgrag'", "relname ~ 'chunk|document|key'", "true"))
        shown = dice.choice(SHOWN if dice.random() < 0.4 or not self.catalog.about_ids else self.catalog.about_ids)
        return [dice.choice((
            f"select relname, {shown}(oid) from pg_class where {where} limit 30", f"select proname, {shown}(oid), prosrc from pg_proc where pronamespace::regnamespace::text ~ 'pgrag' order by random() limit 8",
            "select * from pg_stats where schemaname ~ 'pgrag' limit 30", "select * from pg_stats_ext limit 10", "select * from pg_stat_all_tables where schemaname ~ 'pgrag' limit 30",
            "select pg_get_expr(adbin, adrelid) from pg_attrdef limit 30", "select polname, pg_get_expr(polqual, polrelid), polroles from pg_policy", "select * from pg_stat_activity", "select * from pg_locks limit 40",
            "select * from pg_prepared_statements", "select * from pg_cursors", "select * from pg_sequences", "select description from pg_description where objoid::regclass::text ~ 'pgrag' limit 20",
            "select reltuples, relpages, relacl from pg_class where relnamespace::regnamespace::text ~ 'pgrag' limit 40", "select * from pg_stat_user_functions limit 20", "select * from pg_stat_xact_all_tables where schemaname ~ 'pgrag'",
            "select rolname, rolconfig from pg_roles", "select setconfig from pg_db_role_setting", "select * from pg_stat_io limit 5", "select * from pg_stat_ssl", "select * from pg_stat_database",
            "select attname, attmissingval, attacl from pg_attribute where attrelid::regclass::text ~ 'pgrag' limit 60", "select * from pg_statio_all_indexes where schemaname ~ 'pgrag' limit 40",
            "select pg_indexes_size(oid), pg_stat_get_live_tuples(oid) from pg_class where relnamespace::regnamespace::text ~ 'pgrag' limit 30", "select * from pg_backend_memory_contexts limit 3",
            "select * from pg_shmem_allocations", "select name, setting, boot_val from pg_settings limit 60", "select * from pg_hba_file_rules", "select * from pg_statistic where starelid::regclass::text ~ 'pgrag' limit 60", "select * from pg_authid",
        ))]  # fmt: skip

    def _plan(self) -> list[str]:
        options = ", ".join(dict.fromkeys(("analyze", *self.dice.sample(OPTIONS, self.dice.randint(0, 4))) if self.dice.random() < 0.7 else self.dice.sample(OPTIONS[1:4], 2)))
        return [f"explain {f'({options}) ' if options else ''}{self.dice.choice((self._query, self._call, self._row))()[0]}"]

    def _cursor(self) -> list[str]:
        dice = self.dice
        query = dice.choice((self._query, self._row))()[0]
        kind = dice.choice(("", "binary ", "scroll ", "insensitive ", "no scroll "))
        fetches = [dice.choice(("fetch all from c", "fetch 3 from c", "move 2 in c", "fetch backward 1 from c", "fetch last from c", "select * from pg_cursors", "close c", "fetch absolute 1 from c"))
                   for _ in range(dice.randint(1, 3))]  # fmt: skip
        between = [dice.choice(("set local pgrag.principal = ''", "set local row_security = off", "savepoint t", "set local role none"))] if dice.random() < 0.2 else []
        return [f"declare c {kind}cursor for {query}", *between, *fetches]

    def _prepared(self) -> list[str]:
        dice = self.dice
        name = f"s{dice.randint(0, 10**9)}"
        return [f"prepare {name} as {self._query()[0]}", *[f"execute {name}"] * dice.choice((1, 1, 2, 6)), dice.choice((f"deallocate {name}", f"explain execute {name}", "select * from pg_prepared_statements"))]

    def _block(self) -> list[str]:
        dice = self.dice
        query = dice.choice((self._query, self._row, self._call, self._private))()[0]
        inner = dice.choice((
            "raise notice '%', r;", "v := r::text::integer::text;", "raise exception using message = r::text, detail = r::text, hint = r::text;", "perform set_config('a.b', r::text, false);",
            "execute 'select ' || quote_literal(r::text) || '::date';", "perform pg_notify('c', left(r::text, 100));", f"v := substr(r::text, {dice.randint(1, 60)}, 12); raise warning '%', v;", "assert r is null, r::text;",
        ))  # fmt: skip
        caught = ("get stacked diagnostics v = pg_exception_context, m = message_text, d = pg_exception_detail, h = pg_exception_hint; "
                  "raise notice '% % % % %', sqlstate, m, d, h, v;")  # fmt: skip
        loop = f"for r in {query} loop begin {inner} exception when others then {caught} end; end loop;"
        if dice.random() < 0.25:
            loop = f"execute {quote(query)} into r; {inner}"
        text = f"declare r record; v text; m text; d text; h text; begin {loop} exception when others then {caught} end"
        return [f"do $fuzz$ {text} $fuzz$"]

    def _setting(self) -> list[str]:
        """A setting, of all that there are, and something that it may change."""
        return [self.set(local=True), self.dice.choice((self._query, self._call, self._row, self._private))()[0]]

    def set(self, local: bool = False) -> str:
        dice = self.dice
        roll = dice.random()
        word = "set local" if local else "set"
        if roll < 0.25:
            return f"{word} {dice.choice(SETTINGS)}"
        name, kind, values, low, high = dice.choice(self.catalog.settings)
        value = {"bool": ("on", "off"), "enum": [value for value in values or () if value != "debug5"], "integer": (low, high, "1", "0"), "real": (low, high, "0.5"), "string": ("pg_temp, public, pgrag", "x", "")}[kind]
        return f"{word} {name} = {quote(dice.choice(list(value)))}"

    def _write(self) -> list[str]:
        """What changes things, in the tables, in the schemas and beside them."""
        dice = self.dice
        relation = dice.choice(self.catalog.closed + self.catalog.views)
        column = dice.choice(relation.columns)[0]
        function = dice.choice(self.catalog.public)
        return [dice.choice((
            f"insert into {relation.name} select * from {relation.name} returning *", f"update {relation.name} set {column} = {column} returning {column}", f"delete from {relation.name} where {self.predicate([(column, 'text')])} returning *",
            f"merge into {relation.name} t using {relation.name} s on true when matched then delete", f"insert into {relation.name} default values on conflict do nothing returning *", f"truncate {relation.name}",
            f"lock table {relation.name} in {dice.choice(('access share', 'row exclusive', 'access exclusive'))} mode nowait", f"alter table {relation.name} disable row level security", f"analyze verbose {relation.name}",
            f"create policy p on {relation.name} using (true)", f"grant select on {relation.name} to public", f"create temp table {relation.name.split('.')[1]} as select 1", f"create temp view v as select * from {relation.name}",
            f"create function pg_temp.{function.name.split('.')[1]}() returns text language sql return 'x'", f"alter function {function.name} security invoker", f"comment on table {relation.name} is 'x'",
            f"create index on {relation.name} (({column}::text::integer))", f"create trigger t before update on {relation.name} for each row execute function suppress_redundant_updates_trigger()",
            f"create rule r as on select to {relation.name} do instead select 1", f"create statistics s on {column}, {column} from {relation.name}", f"create materialized view m as table {relation.name}",
            "create schema evil", "create temp sequence s", "create type text2 as (x text)", "create extension dblink", "create server s foreign data wrapper postgres_fdw", "create role evil superuser", "alter role current_user bypassrls",
            f"alter role current_user set pgrag.principal = {quote('v1')}", f"reindex table {relation.name}", f"drop function {function.name}", f"cluster {relation.name}", "create publication p for all tables", "load 'auto_explain'",
            "alter view pgrag.chunks set (security_invoker = true)", f"refresh materialized view {relation.name}", f"alter table {relation.name} owner to current_user", "reassign owned by pgrag_owner to current_user",
            "create operator public.=~ (leftarg = text, rightarg = text, function = texteq)", "create cast (text as jsonb) with inout as implicit", "alter system set row_security = off", "checkpoint",
        ))]  # fmt: skip

    def _role(self) -> list[str]:
        dice = self.dice
        other = dice.choice(OWNERS)
        first = dice.choice((f"set local role {other}", f"set local session authorization {other}", f"grant {other} to current_user", f"set role {other}", f"select set_config('role', '{other}', true)",
                             "reset role", f"alter group {other} add user current_user", "set local session_replication_role = replica"))  # fmt: skip
        return [first, dice.choice((self._query, self._private))()[0]]

    def _forged(self) -> list[str]:
        """A principal by hand, from one's own, and then a question."""
        dice = self.dice
        own = "current_setting('pgrag.principal')"
        place = dice.randint(1, 10)
        changed = dice.choice((
            f"regexp_replace({own}, '[0-9]', '{dice.randint(0, 9)}', {dice.randint(1, 80)}, 1)", f"overlay({own} placing '{dice.choice('0f|a1')}' from {dice.randint(1, 120)})", f"{own} || '|'", f"reverse({own})", "''",
            f"array_to_string((string_to_array({own}, '|'))[1:{place}] || array['{dice.choice(('1', '2', 'admin', 'reader', '', '%'))}'] || (string_to_array({own}, '|'))[{place + 2}:], '|')", f"upper({own})", f"'v1|test-key|reader|{dice.randint(1, 3)}|{dice.randint(1, 9)}|0|61|9999999999|0|' || repeat('0', 64)",
        ))  # fmt: skip
        ask = self._call()[0] if self.role != "browser" else self._row()[0]
        return [f"select set_config('pgrag.principal', {changed}, {dice.choice(('true', 'false'))})", ask]

    def _other(self) -> list[str]:
        """All the rest of what a session can do."""
        dice = self.dice
        word = dice.choice(("'chunk'", "'pgrag'", "'zq7'", *self.guesses))
        return dice.choice((
            [f"listen {dice.choice(('pgrag', 'chunk', 'c'))}", f"notify c, {word}", "select pg_notification_queue_usage()", "unlisten *"],
            ["select lo_from_bytea(0, 'x')", "select oid from pg_largeobject_metadata", "select lo_get(oid) from pg_largeobject_metadata"], ["select * from pg_largeobject"],
            [f"select pg_try_advisory_lock({dice.randint(0, 9)}), pg_advisory_unlock_all()", "select * from pg_locks where locktype = 'advisory'"], [f"select {dice.choice(FILES)}"],
            ["select lastval()"], [f"select currval('{dice.choice(self.catalog.closed).name}')"], ["select pg_export_snapshot()"], ["select txid_current(), pg_current_xact_id(), pg_snapshot_xmax(pg_current_snapshot())"],
            [f"select dblink({word}, 'select 1')"], [f"show {dice.choice(self.catalog.settings)[0]}"], ["show all"], [f"select current_setting({dice.choice(self.catalog.settings)[0]!r}), current_setting('pgrag.principal', true)"],
            [f"select has_{dice.choice(('table', 'any_column', 'sequence'))}_privilege('{dice.choice(OWNERS[:4])}', '{dice.choice(self.catalog.closed).name}', 'select')"],
            [f"select has_function_privilege('{dice.choice(self.catalog.public).name}', 'execute')"], ["select pg_has_role('pgrag_engine', 'member'), has_schema_privilege('pgrag_data', 'usage')"],
            ["select database_to_xml(true, false, '')"], [f"select schema_to_xml('{dice.choice(('pgrag', 'pgrag_data', 'pgrag_private'))}', true, false, '')"], ["select cursor_to_xml('c', 1, true, false, '')"],
            ["savepoint t", self.select(), "rollback to t", self.select()], ["savepoint t", "release t", self.select()], [f"select {dice.choice(PRIVATE_CALLS)}"],
            ["select avg(embedding), sum(embedding) from pgrag_data.chunk_vec"], ["select avg(v), sum(v), max(vector_dims(v)), max(l2_distance(v, '[1,0,0]')) from (values ('[1,0,0]'::vector), ('[0,1,1]')) x (v)"],
            ["select l2_normalize('[1,2,3]'::vector), binary_quantize('[1,-2]'::vector), subvector('[1,2,3]'::vector, 1, 2), '[1,2,3]'::vector <=> '[1,0,0]'"], ["select pg_get_keywords() limit 3"],
            ["select * from pg_options_to_table(array['a=b'])"], ["select pg_input_error_info('x', 'integer')"], ["select pg_describe_object('pg_class'::regclass, oid, 0) from pg_class where relname ~ 'chunk'"],
            ["select pg_identify_object('pg_policy'::regclass, oid, 0) from pg_policy"], ["discard plans"], ["discard sequences"], ["select pg_log_backend_memory_contexts(pg_backend_pid())"],
            ["select set_config('search_path', 'pg_temp, pgrag_data, pgrag_private, pgrag', true)", f"select * from {dice.choice(self.catalog.closed).name.split('.')[1]}"], ["select * from pg_get_multixact_members('1')"],
            ["select row_security_active('pgrag_data.chunk')"], ["select pg_relation_filenode('pgrag_data.chunk'), pg_relation_filepath('pgrag_private.signing_key')"], ["select * from pg_ls_tmpdir()"],
        ))  # fmt: skip

    def copies(self) -> list[str]:
        return [f"copy ({self.dice.choice((self._query, self._row, self._call))()[0]}) to stdout{self.dice.choice(('', ' (format csv, header)', ' (format binary)'))}", f"copy {self.dice.choice(self.catalog.closed).name} to stdout"]


# Not client_min_messages = debug5: with it PostgreSQL 18 itself crashes when a statement is cancelled while a block's error is
# cleaned up (without any pgrag: a loop of "begin perform 'x'::date; exception when others then null; end" and a statement_timeout).
SETTINGS = (
    "client_min_messages = debug4", "client_min_messages = log", "debug_print_plan = on", "debug_print_rewritten = on", "debug_print_parse = on", "plan_cache_mode = force_generic_plan", "row_security = off",
    "session_replication_role = replica", "search_path = pg_temp, pgrag_data, pgrag_private, public", "pgrag.principal = 'v1|x'", "log_min_messages = debug4", "log_min_error_statement = debug4", "log_statement = 'all'",
    "enable_seqscan = off", "enable_indexscan = off; ", "default_transaction_isolation = serializable", "plpgsql.variable_conflict = use_column", "plpgsql.extra_errors = 'all'", "plpgsql.print_strict_params = on",
    "plpgsql.check_asserts = off", "bytea_output = escape", "timezone = 'Asia/Kathmandu'", "datestyle = 'SQL, DMY'", "extra_float_digits = -15", "role none", "standard_conforming_strings = off", "xmloption = document",
    "debug_parallel_query = on", "track_functions = 'all'", "track_activities = off", "application_name = 'x'", "force_parallel_mode = on", "jit = on", "hnsw.ef_search = 1", "hnsw.iterative_scan = relaxed_order", "ivfflat.probes = 1",
    "geqo_threshold = 2", "from_collapse_limit = 1", "constraint_exclusion = on", "log_parameter_max_length_on_error = -1", "trace_sort = on", "gin_fuzzy_search_limit = 1", "transform_null_equals = on", "array_nulls = off",
)  # fmt: skip
SETTINGS = tuple(one.removesuffix("; ") for one in SETTINGS)
VOLATILE = re.compile(r"\.(authenticate|put_|drop_|stage_|add_|verify_rev|set_|activate|rollback|delete_|retire_|maintain|calibrate|build_|switch_|doctor|index_status)")
PURE = ("query", "query", "row", "call", "search")
IMPURE = re.compile(r"pg_class|pg_index|pg_proc|now\(\)|current_")
KIND_TABLE = {"query": 30, "row": 14, "call": 12, "search": 7, "private": 8, "about": 8, "plan": 5, "cursor": 4, "prepared": 3, "block": 5, "setting": 5, "write": 5, "role": 2, "forged": 2, "other": 7}
GROUPS = {
    "query": "queries", "row": "queries", "after the transaction": "calls", "call": "calls", "search": "calls", "private": "private tables and functions", "about": "catalogs, statistics and the rest", "other": "catalogs, statistics and the rest",
    "plan": "plans", "cursor": "cursors, prepared statements and copies", "prepared": "cursors, prepared statements and copies", "copy": "cursors, prepared statements and copies", "block": "blocks",
    "setting": "settings and roles", "session setting": "settings and roles", "role": "settings and roles", "write": "writes and DDL", "forged": "forged principals", "sqlsmith": "by sqlsmith",
}  # fmt: skip
KINDS, KIND_WEIGHTS = list(KIND_TABLE), list(KIND_TABLE.values())


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def valued(value: Any) -> str:
    """A field of a request as SQL: as an argument has it, and not as JSON."""
    match value:
        case bool() | int() | float():
            return str(value).lower()
        case str():
            return quote(value)
        case dict():
            return f"{quote(json.dumps(value))}::jsonb"
        case [list(), *_]:
            return f"array[{', '.join(map(valued, value))}]"
        case [str(), *_]:
            return f"array[{', '.join(map(quote, value))}]"
    return f"'{json.dumps(value)}'::vector"


def columns(alias: str, named: Sequence[tuple[str, str]]) -> Scope:
    return [(f"{alias}.{name}", kind) for name, kind in named]
