"""A transaction-pooling proxy: whoever uses a connection next is not taken for whoever used it before."""

from __future__ import annotations

import os
import pwd
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.assurance.together import NEAR, processes
from tests.functions.patched import all_patched
from tests.support import PASSWORD, Database

Connection = psycopg.Connection[Any]

CLIENTS, CONNECTIONS, CHECKOUTS = 4, 3, 125  # processes, connections of each to the proxy, checkouts of each in a batch
SERVERS = 2  # connections of the proxy to the server, for each role
TENANTS, USERS = ("north", "south"), ("ann", "ben", "eve")
CLEANING = ("server_reset_query = DISCARD ALL", "server_reset_query_always = 1")
NOBODY = {"RG201", "RG208"}  # what is said to whoever proves nothing; the second where a principal was left behind


def proxy() -> str | None:
    """Where PgBouncer is."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/sbin")


@contextmanager
def pooled(database: Database, settings: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """PgBouncer in transaction mode before the database: where a reader and a browser connect."""
    program = proxy()
    assert program
    server = conninfo_to_dict(database.dsn())
    # PgBouncer refuses to be root, and whoever runs it must be able to reach the server's socket.
    socket = Path(str(server["host"])) / f".s.PGSQL.{server.get('port', 5432)}"
    uid = os.geteuid() or (socket.stat().st_uid if socket.exists() else 0) or pwd.getpwnam("nobody").pw_uid
    home = Path(tempfile.mkdtemp(prefix="pgb-"))  # short enough for a socket, and nobody's home
    target = " ".join(f"{name}={server[name]}" for name in ("host", "port") if server.get(name))
    lines = [
        "[databases]", f"{database.name} = {target} pool_size={SERVERS}", "[pgbouncer]", "listen_port = 6432", f"unix_socket_dir = {home}",
        "auth_type = scram-sha-256", f"auth_file = {home}/users.txt", "pool_mode = transaction", f"logfile = {home}/log", f"pidfile = {home}/pid",
        "log_connections = 0", "log_disconnections = 0", *settings, "",
    ]  # fmt: skip
    (home / "pgbouncer.ini").write_text("\n".join(lines))
    (home / "users.txt").write_text("".join(f'"app_{role}" "{PASSWORD}"\n' for role in ("reader", "browser")))
    for path in (home, *home.iterdir()):
        os.chown(path, uid, -1)
    given: dict[str, Any] = {"user": uid, "group": pwd.getpwuid(uid).pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    process = subprocess.Popen([program, "-q", home / "pgbouncer.ini"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **given)
    try:
        deadline = time.monotonic() + 10
        while not (home / ".s.PGSQL.6432").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"pgbouncer did not start: {(home / 'log').read_text() if (home / 'log').exists() else ''}")
            time.sleep(0.02)
        first, second = (
            make_conninfo("", host=str(home), port=6432, dbname=database.name, user=f"app_{role}", password=PASSWORD) for role in ("reader", "browser")
        )
        yield first, second
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(home)


@dataclass(frozen=True)
class Pool:
    """What a client has to know: where the proxy is, everybody's token, and what everybody may see."""

    reader: str
    browser: str
    tokens: dict[tuple[str, str], str]
    visible: dict[tuple[str, str], frozenset[str]]
    seed: int
    cleaned: bool  # the proxy resets each connection between two clients
    cursors: bool  # users leave cursors, too


def furnished(database: Database) -> tuple[dict[tuple[str, str], str], dict[tuple[str, str], frozenset[str]]]:
    """Two tenants with the same names, groups and documents in each; tokens, and the texts that each user may see."""
    tokens: dict[tuple[str, str], str] = {}
    visible: dict[tuple[str, str], frozenset[str]] = {}
    for number, tenant in enumerate(TENANTS):
        groups = {"team": ["ann", "ben"], "chiefs": ["eve"]}
        database.put_tenant(tenant)
        database.put_principals(tenant, users=USERS, groups=groups)
        every: dict[str, list[str]] = {**{f"own-{user}.md": [user] for user in USERS}, **{f"of-{group}.md": [group] for group in groups},
                                       "open.md": ["everyone"]}  # fmt: skip
        with database.writer(tenant, "handbook") as writer:
            for place, (document, readers) in enumerate(every.items()):
                database.put_document(writer, document, f"Refund rule of {tenant} {document}.", readers=readers, vectors=[[1, place / 10, number / 10]])
        for user in USERS:
            tokens[tenant, user] = database.token(tenant, user)
            of = {"everyone", user} | {group for group, members in groups.items() if user in members}
            visible[tenant, user] = frozenset(f"Refund rule of {tenant} {document}." for document, readers in every.items() if of & set(readers))
    return tokens, visible


_ALL = "select text from pgrag.search('refund rule', 50, '{}', {}p_threshold => 0, p_token => %s)"
ASK_BY = {"dense": _ALL.format("dense", NEAR), "lexical": _ALL.format("lexical", "")}
_CHUNKS = "select text from pgrag.chunks"


class Client:
    """One process's connections, each transaction on which may be on any connection of the server."""

    def __init__(self, pool: Pool, number: int) -> None:
        self.pool, self.number = pool, number
        self.dice = random.Random(f"{pool.seed} {number}")
        self.tally = Tally()
        self.connections: list[Connection] = [self.connect("reader") for _ in range(CONNECTIONS)]
        self.browser = self.connect("browser")
        self.kinds: dict[Callable[[Connection, str, frozenset[str]], None], int] = {
            self.transaction: 25, self.token: 15, self.view: 20, self.nobody: 16, self.nobody_browses: 6, self.broken: 4, self.cancelled: 1,
            self.gone: 2, self.leaves_principal: 4, self.leaves_settings: 3, self.leaves_statement: 4,
        } | ({self.leaves_cursor: 6} if pool.cursors else {})  # fmt: skip

    def connect(self, role: str) -> Connection:
        return psycopg.connect(getattr(self.pool, role), autocommit=True, prepare_threshold=None)

    def run(self, checkouts: int) -> Tally:
        people = list(self.pool.tokens)
        kinds, weights = list(self.kinds), list(self.kinds.values())
        for _ in range(checkouts):
            (kind,) = self.dice.choices(kinds, weights)
            person = self.dice.choice(people)
            self.at = f"seed {self.pool.seed}, client {self.number}, checkout {self.tally.cases}, {kind.__name__} of {'/'.join(person)}"
            connection = self.dice.choice(self.connections)
            try:
                kind(connection, self.pool.tokens[person], self.pool.visible[person])
            except psycopg.Error as error:
                if error.sqlstate == "57014":  # a cancellation that came late hit whoever had the server's connection then
                    self.tally.counts["cancelled by another"] += 1
                else:
                    self.tally.fail(f"{self.at}: {error.sqlstate} {error}")
                self.replace(connection)
            self.tally.cases += 1
            self.tally.counts[kind.__name__] += 1
        for connection in (*self.connections, self.browser):
            connection.close()
        return self.tally

    def replace(self, connection: Connection) -> None:
        if connection is self.browser:
            self.browser = self.connect("browser")
        else:
            self.connections[self.connections.index(connection)] = self.connect("reader")
        connection.close()

    def saw(self, cursor: psycopg.Cursor[Any], may: frozenset[str]) -> None:
        """All that the person may see, and nothing else."""
        found = frozenset(text for (text,) in cursor)
        if found != may:
            self.tally.fail(f"{self.at}: too much: {sorted(found - may)}, too little: {sorted(may - found)}")

    def refused(self, connection: Connection, statement: str, codes: set[str], arguments: Sequence[Any] = ()) -> None:
        """Refused, and not answered with somebody's rows."""
        try:
            rows = connection.execute(statement, arguments).fetchall()
        except psycopg.Error as error:
            if error.sqlstate not in codes:
                raise
            self.tally.counts[f"refused {error.sqlstate}"] += 1
        else:
            self.tally.fail(f"{self.at}: {statement.split('(')[0]} was answered with {rows[:3]}")

    # Those who behave.

    def transaction(self, connection: Connection, token: str, may: frozenset[str]) -> None:
        with connection.pipeline(), connection.transaction():
            connection.execute("select pgrag.authenticate(%s)", (token,))
            cursors = [connection.execute(ASK_BY[self.dice.choice(list(ASK_BY))], (None,)) for _ in range(self.dice.choice((1, 1, 2)))]
        for cursor in cursors:
            self.saw(cursor, may)

    def token(self, connection: Connection, token: str, may: frozenset[str]) -> None:
        self.saw(connection.execute(ASK_BY["dense"], (token,)), may)

    def view(self, _: Connection, token: str, may: frozenset[str]) -> None:
        with self.browser.pipeline(), self.browser.transaction():
            self.browser.execute("select pgrag.authenticate(%s)", (token,))
            cursor = self.browser.execute(_CHUNKS)
        self.saw(cursor, may)

    def nobody(self, connection: Connection, *_: Any) -> None:
        self.refused(connection, ASK_BY["dense"], NOBODY, (None,))

    def nobody_browses(self, *_: Any) -> None:
        self.refused(self.browser, _CHUNKS, NOBODY)

    # Those whom something happens to.

    def broken(self, connection: Connection, token: str, _: frozenset[str]) -> None:
        connection.execute("begin")
        connection.execute("select pgrag.authenticate(%s)", (token,))
        self.refused(connection, *self.dice.choice((("select 1 / 0", {"22012"}), ("select pgrag.excerpt('nothing')", {"RG401"}),
                                                    ("select * from pgrag_data.chunk", {"42501"}))))  # fmt: skip
        self.refused(connection, ASK_BY["dense"], {"25P02"}, (None,))
        connection.execute(self.dice.choice(("rollback", "commit")))

    def cancelled(self, connection: Connection, token: str, _: frozenset[str]) -> None:
        connection.execute("begin")
        connection.execute("select pgrag.authenticate(%s)", (token,))
        done = threading.Event()

        def cancel() -> None:
            while not done.wait(0.01):  # one that comes before the statement is lost
                connection.cancel_safe()

        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            self.refused(connection, "select pg_sleep(10)", {"57014"})
        finally:
            done.set()
            thread.join()
        connection.execute("rollback")

    def gone(self, connection: Connection, token: str, _: frozenset[str]) -> None:
        """It disappears in the middle of its transaction."""
        connection.execute("begin")
        connection.execute("select pgrag.authenticate(%s)", (token,))
        self.replace(connection)

    # Those who leave something behind, for themselves or for whoever comes next.

    def leaves_principal(self, connection: Connection, token: str, may: frozenset[str]) -> None:
        with connection.transaction():
            connection.execute("select pgrag.authenticate(%s)", (token,))
            self.saw(connection.execute(ASK_BY["dense"], (None,)), may)
            connection.execute("select set_config('pgrag.principal', current_setting('pgrag.principal'), false)")

    def leaves_settings(self, connection: Connection, token: str, may: frozenset[str]) -> None:
        settings = ["set search_path = pg_temp, public", "set enable_indexscan = off", "set hnsw.ef_search = 1", "set plan_cache_mode = force_generic_plan"]
        if self.pool.cleaned:
            settings += ["set row_security = off", "set default_transaction_isolation = 'serializable'"]
        connection.execute(self.dice.choice(settings))
        self.saw(connection.execute(ASK_BY["lexical"], (token,)), may)

    def leaves_statement(self, connection: Connection, token: str, may: frozenset[str]) -> None:
        """One of that name is there, from oneself or from somebody else: it runs as whoever runs it."""
        prepared = "select from pg_prepared_statements where name = 'theft'"
        with connection.transaction():
            there = connection.execute(prepared).fetchone() is not None
            if there and self.pool.cleaned:
                self.tally.fail(f"{self.at}: a prepared statement was left")
            if not there:
                connection.execute("prepare theft as " + ASK_BY["dense"].replace("%s", "null"))
            connection.execute("select pgrag.authenticate(%s)", (token,))
            self.saw(connection.execute("execute theft"), may)
            self.tally.counts["statements found"] += there
        self.refused(connection, "execute theft", NOBODY | {"26000"})  # on this connection of the server, or on another

    def leaves_cursor(self, connection: Connection, token: str, _: frozenset[str]) -> None:
        """Rows in a cursor WITH HOLD are its maker's, and the proxy has to close it."""
        self.refused(connection, "fetch all from hold", {"34000"})
        with connection.transaction():
            connection.execute("select pgrag.authenticate(%s)", (token,))
            connection.execute("declare hold cursor with hold for " + ASK_BY["dense"].replace("%s", "null"))


def check_out(pool: Pool, number: int) -> Tally:
    """One process."""
    return Client(pool, number).run(CHECKOUTS)


def checked_out(given: Pool, pool: ProcessPoolExecutor) -> Tally:
    return sum((task.result(300) for task in [pool.submit(check_out, given, number) for number in range(CLIENTS)]), start=Tally())


@contextmanager
def pooling(lab: Lab, *changes: tuple[str, str, str], cursors: bool = False) -> Iterator[Batch]:
    """Every other batch through a proxy that resets connections. ``cursors``: the other one's users leave cursors, too."""
    with lab.database() as database, processes(CLIENTS) as (pool, _), ExitStack() as stack:
        stack.enter_context(all_patched(database, *changes))
        tokens, visible = furnished(database)
        plain, cleaning = (stack.enter_context(pooled(database, settings)) for settings in ((), CLEANING))

        def batch(seed: int) -> Tally:
            reset = not cursors and not changes and seed % 2 == 1
            tally = checked_out(Pool(*(cleaning if reset else plain), tokens, visible, seed, reset, cursors or reset), pool)
            tally.draws = CLIENTS
            return tally

        yield batch


PROOF = Proof(
    name="pool",
    contracts=("A2", "A3"),
    unit="checkouts",
    target=100_000,
    claim="Behind a transaction-pooling proxy nobody sees another's row: whoever proves nothing is refused, whatever the one before left or did.",
    opened=pooling,
    draw="clients",
    controls={
        "a principal that outlives its transaction": Control(lambda lab: pooling(
            lab, ("pgrag.authenticate", "v_setting), true)", "v_setting), false)"),
            ("current_principal", "v_fields[9] <> pgrag_private.transaction_mark()", "false")), "nobody of .* was answered with"),
        "cursors with a proxy that resets nothing": Control(partial(pooling, cursors=True), "fetch all from hold was answered with"),
    },
    short=2,
    needs=lambda: "" if proxy() else "there is no pgbouncer here: apt-get install pgbouncer",
)  # fmt: skip
