"""Who is asking: proven by a token, for one transaction of one connection, and by nothing else."""

from __future__ import annotations

import re
import secrets
import time
from typing import Any

import psycopg
import pytest

from tests.access.forge import BAD_TOKENS, claims, forge
from tests.support import AUDIENCE, ISSUER, KID, SECRET, Database

SEARCH = (
    'select jsonb_array_length(pgrag.search_json(\'{"question": "refund", "mode": "lexical"}\') -> \'hits\')'
)
SETTING = "select current_setting('pgrag.principal', true)"


@pytest.fixture(scope="module")
def world(module_database: Database) -> Database:
    """Tenant a with alice and bob, of whom bob sees one document more; tenant b with alice."""
    database = module_database
    for tenant in ("a", "b"):
        database.put_tenant(tenant)
        database.put_principals(tenant, users=["alice", "bob"], groups={"hr": ["bob"], "all-hr": ["hr"]})
        with database.writer(tenant, "handbook") as writer:
            database.put_document(writer, "refund.md", f"The refund window of {tenant}.")
            database.put_document(writer, "salaries.md", "Refund of salaries.", readers=["all-hr"])
    return database


def error_of(connection: psycopg.Connection[Any], sql: str, parameters: Any = ()) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(sql, parameters)
    return caught.value


def said(error: psycopg.Error) -> tuple[Any, ...]:
    """Everything that a client is told, but for the line of the function that told it."""
    diag = error.diag
    return (
        error.sqlstate,
        diag.message_primary,
        diag.message_detail,
        diag.message_hint,
        re.sub(r"line \d+", "", diag.context or ""),
    )


def search(connection: psycopg.Connection[Any]) -> int:
    return connection.execute(SEARCH).fetchone()[0]


def test_the_cases_see_what_they_should(world: Database) -> None:
    for tenant in ("a", "b"):
        for subject, documents in (("alice", 1), ("bob", 2), ("mallory", 0)):
            with world.reader(tenant, subject) as reader:
                assert search(reader) == documents


# ---- tokens -----------------------------------------------------------------------------------------------------


@pytest.mark.contract("A2", "A3")
@pytest.mark.parametrize("way", ["authenticate", "argument"])
@pytest.mark.parametrize("name", BAD_TOKENS)
def test_a_bad_token_is_refused_for_what_it_is(world: Database, name: str, way: str) -> None:
    builder, code = BAD_TOKENS[name]
    call = "select pgrag.authenticate(%s)" if way == "authenticate" else "select * from pgrag.whoami(%s)"
    with world.role("reader") as reader:
        error = error_of(reader, call, (builder("a", "bob"),))
        assert error.sqlstate == code
        assert error.diag.message_hint
        reader.rollback()
        assert not reader.execute(SETTING).fetchone()[0]  # and leaves nobody behind
        assert error_of(reader, SEARCH).sqlstate == "RG201"


@pytest.mark.contract("A2")
def test_good_tokens_of_every_shape_are_accepted(world: Database) -> None:
    """Control for the one above, and what the JWT standard allows."""
    now = time.time()
    shapes = {
        "plain": forge(claims("a", "bob")),
        "of a library": world.token("a", "bob"),
        "audiences": forge(claims("a", "bob", aud=["others", AUDIENCE])),
        "fractions of seconds": forge(claims("a", "bob", exp=now + 60.5, nbf=now - 0.5)),
        "without nbf": forge(claims("a", "bob", nbf=None)),
        "more claims": forge(claims("a", "bob", jti="x", roles=["admin"], groups=["hr"], iat=0)),
        "more header": forge(claims("a", "bob"), {"typ": "at+jwt", "kid": KID, "alg": "HS256", "cty": "x"}),
        "white space": forge(
            f'\n{{"iss": "{ISSUER}", "aud": "{AUDIENCE}", "sub": "bob", "tenant": "a", "kind": "reader", "exp": 99999999999}} '
        ),
        "a far end": forge(claims("a", "bob", exp=10**30)),
    }
    for shape, token in shapes.items():
        with world.role("reader") as reader:
            who = reader.execute(
                "select tenant, subject, kind, known from pgrag.whoami(%s)", (token,)
            ).fetchone()
            assert who == ("a", "bob", "reader", True), shape
            reader.execute("select pgrag.authenticate(%s)", (token,))
            assert search(reader) == 2, shape


@pytest.mark.contract("A2", "A9")
def test_an_unknown_key_a_retired_key_and_a_bad_signature_read_the_same(database: Database) -> None:
    database.put_tenant("a")
    other = secrets.token_bytes(32)
    with database.role("keys") as keys:
        keys.execute("select pgrag.add_signing_key('retired', %s, %s, %s)", (other, ISSUER, AUDIENCE))
        keys.execute("select pgrag.retire_signing_key('retired')")
    tokens = [
        database.token("a", "alice", kid="unknown"),
        database.token("a", "alice", secret=other),
        database.token("a", "alice", secret=other, kid="retired"),
        database.token(
            "nowhere", "alice", secret=other, kid="retired"
        ),  # nothing else is looked at before the signature
        database.token("a", "alice", secret=other, exp=1, aud="x"),
    ]
    errors = []
    for token in tokens:
        with database.role("reader") as reader:
            errors.append(said(error_of(reader, "select pgrag.authenticate(%s)", (token,))))
    assert errors[0][0] == "RG203"
    assert len(set(errors)) == 1
    with database.role("reader") as reader:  # control: other faults do read otherwise
        assert said(error_of(reader, "select pgrag.authenticate('x')")) != errors[0]


@pytest.mark.contract("A3", "A9")
def test_an_unknown_tenant_says_nothing_about_tenants(world: Database) -> None:
    errors = []
    for tenant in ("nowhere", "B", "a ", "pgrag"):
        with world.role("reader") as reader:
            errors.append(
                said(error_of(reader, "select pgrag.authenticate(%s)", (world.token(tenant, "alice"),)))
            )
    with world.role("writer") as writer:  # nor a writer's unknown source, in a tenant that exists
        token = world.token("a", "c", "writer", source="nowhere")
        errors.append(said(error_of(writer, "select pgrag.authenticate(%s)", (token,))))
    assert errors[0][0] == "RG207"
    assert len(set(errors)) == 1
    assert not re.search(
        r"nowhere|\b[ab]\b",
        " ".join(str(part) for part in errors[0][1:4]).replace("a token", "").replace("or a", ""),
    )


@pytest.mark.contract("A3")
def test_a_subject_that_is_unknown_sees_nothing_not_even_what_everyone_may(world: Database) -> None:
    for subject in ("mallory", "Alice", " alice", "everyone", "hr", "all-hr", "%", "0", "alice@b"):
        with world.reader("a", subject) as reader:
            assert search(reader) == 0
            assert reader.execute("select known, groups from pgrag.whoami()").fetchone() == (False, [])
            assert not reader.execute("select pgrag.can_read('handbook', 'refund.md')").fetchone()[0]
    with world.reader("a", "alice") as reader:  # control
        assert reader.execute("select pgrag.can_read('handbook', 'refund.md')").fetchone()[0]


@pytest.mark.contract("A3")
def test_no_principal_is_an_error_in_every_function(world: Database) -> None:
    calls = {
        "reader": [SEARCH, "select * from pgrag.search('x', p_mode => 'lexical')", "select pgrag.packet('x', p_mode => 'lexical')",
                   "select pgrag.packet_json('{\"question\": \"x\"}')", "select pgrag.validate_reply('{}', '{}')", "select pgrag.excerpt('x')",
                   "select pgrag.can_read('x', 'x')", "select * from pgrag.active_space()", "select * from pgrag.whoami()"],
        "writer": ["select pgrag.stage_revision('x', 'x')", "select pgrag.set_access('x', '{}')", "select * from pgrag.list_documents()",
                   "select pgrag.delete_document('x')", "select * from pgrag.writer_source()"],
        "admin": ["select pgrag.put_principal('x', 'user')", "select * from pgrag.list_principals()", "select pgrag.drop_principal('alice')"],
        "browser": ["select * from pgrag.documents", "select * from pgrag.chunks"],
    }  # fmt: skip
    for role, statements in calls.items():
        for statement in statements:
            with world.role(role) as connection:
                assert error_of(connection, statement).sqlstate == "RG201", statement


@pytest.mark.contract("A1", "A2")
def test_a_token_does_what_its_kind_does(world: Database) -> None:
    tokens = {
        kind: world.token("a", "alice", kind, source="handbook" if kind == "writer" else None)
        for kind in ("reader", "writer", "admin", "auditor")
    }
    calls = {
        ("reader", SEARCH): {"reader"},
        ("reader", "select pgrag.whoami()"): set(tokens),
        ("reader", "select pgrag.active_space()"): {"reader", "writer"},
        ("writer", "select pgrag.stage_revision('kinds.md', 'x')"): {"writer"},
        ("writer", "select pgrag.set_access('refund.md', '{everyone}', 'handbook')"): {"writer", "admin"},
        ("admin", "select pgrag.put_principal('alice', 'user')"): {"admin"},
        ("admin", "select pgrag.list_documents()"): {"writer", "admin"},
        ("browser", "select * from pgrag.documents"): {"reader"},
    }
    for (role, statement), kinds in calls.items():
        for kind, token in tokens.items():
            with world.role(role) as connection:
                connection.execute("select pgrag.authenticate(%s)", (token,))
                if kind in kinds:
                    connection.execute(statement)
                else:
                    error = error_of(connection, statement)
                    assert error.sqlstate == "RG209", (statement, kind)
                connection.rollback()


@pytest.mark.contract("A1")
def test_whoami(world: Database) -> None:
    columns = "tenant, subject, kind, source, known, groups"
    expected = {
        ("reader", "alice", None): ("a", "alice", "reader", None, True, ["everyone"]),
        ("reader", "bob", None): ("a", "bob", "reader", None, True, ["all-hr", "everyone", "hr"]),
        ("reader", "mallory", None): ("a", "mallory", "reader", None, False, []),
        ("writer", "crawler", "handbook"): ("a", "crawler", "writer", "handbook", None, []),
        ("admin", "root", None): ("a", "root", "admin", None, None, []),
        ("auditor", "eve", None): ("a", "eve", "auditor", None, None, []),
    }
    for (kind, subject, source), row in expected.items():
        exp = int(time.time()) + 77
        with world.role(kind) as connection:
            token = world.token("a", subject, kind, source=source, exp=exp)
            assert connection.execute(f"select {columns} from pgrag.whoami(%s)", (token,)).fetchone() == row
            connection.execute("select pgrag.authenticate(%s)", (token,))
            who = connection.execute(
                f"select {columns}, extract(epoch from expires_at)::bigint from pgrag.whoami()"
            ).fetchone()
            assert who == (*row, exp)


# ---- the principal of a transaction --------------------------------------------------------------------------------


@pytest.mark.contract("A2")
def test_a_principal_ends_with_its_transaction(world: Database) -> None:
    with psycopg.connect(world.dsn("app_reader"), autocommit=True) as connection:
        for end in ("commit", "rollback"):
            connection.execute("begin")
            connection.execute("select pgrag.authenticate(%s)", (world.token("a", "bob"),))
            assert search(connection) == 2
            kept = connection.execute(SETTING).fetchone()[0]
            connection.execute(end)
            assert not connection.execute(SETTING).fetchone()[0]
            assert error_of(connection, SEARCH).sqlstate == "RG201"
            for local in ("true", "false"):  # the leftover, put back by hand
                connection.execute("begin")
                connection.execute(f"select set_config('pgrag.principal', %s, {local})", (kept,))
                assert error_of(connection, SEARCH).sqlstate == "RG208"
                connection.execute("rollback")
        # In autocommit each statement is a transaction, and a setting for the session outlives it in vain.
        connection.execute("select pgrag.authenticate(%s)", (world.token("a", "bob"),))
        assert error_of(connection, SEARCH).sqlstate == "RG201"
        connection.execute("select set_config('pgrag.principal', %s, false)", (kept,))
        assert error_of(connection, SEARCH).sqlstate == "RG208"
        with connection.transaction():  # and a new principal is not hindered by it
            connection.execute("select pgrag.authenticate(%s)", (world.token("a", "alice"),))
            assert search(connection) == 1


@pytest.mark.contract("A2")
def test_a_principal_does_not_pass_to_another_connection(world: Database) -> None:
    with world.reader("a", "bob") as bob, world.reader("a", "alice") as alice, world.role("reader") as nobody:
        stolen = bob.execute(SETTING).fetchone()[0]
        for thief in (alice, nobody):
            thief.execute("select set_config('pgrag.principal', %s, true)", (stolen,))
            assert error_of(thief, SEARCH).sqlstate == "RG208"
            thief.rollback()
        assert search(bob) == 2  # control: at home it is good


@pytest.mark.contract("A2")
def test_a_setting_counts_only_with_its_mac(world: Database) -> None:
    """A superuser can sign a setting by hand. It counts; and with any one field of it changed, it does not."""
    with world.reader("a", "alice") as reader, world.superuser() as superuser:
        own = reader.execute(SETTING).fetchone()[0].split("|")
        bob = superuser.execute(
            "select principal_id::text from pgrag_data.principal p join pgrag_data.tenant t using (tenant_id) where t.tenant = 'a' and p.name = 'bob'"
        ).fetchone()[0]
        forged = [*own[:4], bob, own[5], b"bob".hex(), *own[7:9]]

        def signed(fields: list[str]) -> str:
            text = "|".join(fields)
            return (
                text
                + "|"
                + superuser.execute("select pgrag_private.internal_mac('session', %s)", (text,)).fetchone()[0]
            )

        def found(setting: str) -> int | str:
            with reader.transaction(force_rollback=True):
                reader.execute("select set_config('pgrag.principal', %s, true)", (setting,))
                try:
                    return search(reader)
                except psycopg.Error as error:
                    return error.sqlstate or ""

        good = signed(forged)
        assert found(good) == 2
        fields = good.split("|")
        for position, field in enumerate(fields):
            for changed in (field + "0", field[:-1] + ("1" if field[-1] != "1" else "2"), ""):
                assert found("|".join([*fields[:position], changed, *fields[position + 1 :]])) == "RG208", (
                    position
                )
        # Signed, and of another backend or another moment: refused all the same.
        pid, start = own[8].split(":")
        for mark in (f"{int(pid) + 1}:{start}", f"{pid}:{int(start) - 1}", f"{pid}:{start}0"):
            assert found(signed([*forged[:8], mark])) == "RG208"
        assert found(signed([*forged[:7], "1", forged[8]])) == "RG204"
        assert found(signed([forged[0], "no-such-key", *forged[2:]])) == "RG203"
        seal = superuser.execute(
            "select pgrag_private.internal_mac('seal', %s)", ("|".join(forged),)
        ).fetchone()[0]
        assert found("|".join([*forged, seal])) == "RG208"  # the key of seals is another key


@pytest.mark.contract("A2")
def test_savepoints_carry_the_principal_of_their_time(world: Database) -> None:
    with world.reader("a", "alice") as reader:
        reader.execute("savepoint s")
        reader.execute("select pgrag.authenticate(%s)", (world.token("a", "bob"),))
        assert search(reader) == 2
        reader.execute("rollback to s")
        assert search(reader) == 1


@pytest.mark.contract("A2")
def test_a_token_as_an_argument_leaves_nothing_behind(world: Database) -> None:
    call = 'select jsonb_array_length(pgrag.search_json(\'{"question": "refund", "mode": "lexical"}\', %s) -> \'hits\')'
    with psycopg.connect(world.dsn("app_reader"), autocommit=True) as connection:
        assert connection.execute(call, (world.token("a", "bob"),)).fetchone()[0] == 2
        assert connection.execute(SETTING).fetchone()[0] is None
        assert error_of(connection, SEARCH).sqlstate == "RG201"
        with connection.transaction():
            connection.execute("select pgrag.authenticate(%s)", (world.token("a", "alice"),))
            assert connection.execute(call, (world.token("a", "bob"),)).fetchone()[0] == 2
            assert search(connection) == 1  # the argument counted for its call alone
            assert error_of(connection, call, ("",)).sqlstate == "RG202"  # an empty token is no principal


@pytest.mark.contract("A2")
def test_nothing_is_written_to_prove_a_principal(world: Database) -> None:
    """So it works on a standby, and in a transaction that may only read."""
    with psycopg.connect(world.dsn("app_reader"), autocommit=True) as connection:
        connection.execute("begin transaction read only")
        connection.execute("select pgrag.authenticate(%s)", (world.token("a", "alice"),))
        assert search(connection) == 1
        assert connection.execute("select pg_current_xact_id_if_assigned()").fetchone()[0] is None
        connection.execute("commit")


@pytest.mark.contract("A2")
def test_discard_all_clears_a_connection(world: Database) -> None:
    """What a connection carries over to its next user, and the documented reset that clears it."""
    with psycopg.connect(world.dsn("app_reader"), autocommit=True) as connection:
        connection.execute("begin")
        connection.execute("select pgrag.authenticate(%s)", (world.token("a", "bob"),))
        connection.execute(f"declare kept cursor with hold for {SEARCH}")
        connection.execute(f"prepare kept as {SEARCH}")
        connection.execute("set search_path = pgrag")
        connection.execute("commit")
        carried = "select (select count(*) from pg_cursors), (select count(*) from pg_prepared_statements where name = 'kept')"
        assert connection.execute(carried).fetchone() == (
            1,
            1,
        )  # control: it is there, and the rows are bob's own
        connection.execute("discard all")
        assert connection.execute(carried).fetchone() == (0, 0)
        assert connection.execute("show search_path").fetchone()[0] != "pgrag"
        assert error_of(connection, SEARCH).sqlstate == "RG201"


@pytest.mark.contract("A2")
def test_what_two_transactions_in_one_message_share(world: Database) -> None:
    """Documented: one message of the simple protocol is one client's, and its transactions have one start."""
    with psycopg.connect(
        world.dsn("app_reader"), autocommit=True, cursor_factory=psycopg.ClientCursor
    ) as connection:
        take = "select set_config('pgrag.principal', current_setting('pgrag.principal'), false)"
        cursor = connection.execute(
            f"begin; select pgrag.authenticate(%s); {take}; commit; begin; {SEARCH}; commit",
            (world.token("a", "bob"),),
        )
        for _ in range(5):
            cursor.nextset()
        assert cursor.fetchone() == (2,)
        assert error_of(connection, SEARCH).sqlstate == "RG208"  # the next message is refused


# ---- ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("A2")
def test_a_token_that_expires_takes_its_principal_along(world: Database) -> None:
    with world.role("reader") as reader:
        end = int(time.time()) + 2
        reader.execute("select pgrag.authenticate(%s)", (world.token("a", "alice", exp=end),))
        assert search(reader) == 1
        time.sleep(max(0, end - time.time()) + 0.05)
        assert error_of(reader, SEARCH).sqlstate == "RG204"


@pytest.mark.contract("A2")
def test_a_transaction_grows_too_old_for_its_principal(database: Database) -> None:
    """The bound of an hour cannot be waited for. So a superuser makes the hour a quarter of a second, and waits for that."""
    database.put_tenant("a")
    database.put_principals("a", users=["alice"])
    with database.superuser() as superuser:
        body = superuser.execute(
            "select pg_get_functiondef('pgrag_private.current_principal'::regproc)"
        ).fetchone()[0]
        assert body.count("interval '1 hour'") == 1
        with database.reader("a", "alice") as reader:
            superuser.execute("select pg_sleep(0.3)")
            assert search(reader) == 0  # control: with the hour, it is young
        superuser.execute(body.replace("interval '1 hour'", "interval '250 milliseconds'"))
        with database.reader("a", "alice") as reader:
            assert search(reader) == 0
            superuser.execute("select pg_sleep(0.3)")
            assert error_of(reader, SEARCH).sqlstate == "RG210"
            reader.rollback()
            reader.execute("select pgrag.authenticate(%s)", (database.token("a", "alice"),))
            assert search(reader) == 0


@pytest.mark.contract("A2")
def test_keys_rotate_without_downtime(database: Database) -> None:
    database.put_tenant("a")
    database.put_principals("a", users=["alice"])
    new = secrets.token_bytes(64)
    call = "select known from pgrag.whoami(%s)"
    old_token, new_token = database.token("a", "alice"), database.token("a", "alice", secret=new, kid="key-2")
    with (
        psycopg.connect(database.dsn("app_reader"), autocommit=True) as reader,
        database.reader("a", "alice") as open_transaction,
    ):
        assert reader.execute(call, (old_token,)).fetchone()[0]
        assert error_of(reader, call, (new_token,)).sqlstate == "RG203"
        with database.role("keys") as keys:
            keys.execute("select pgrag.add_signing_key('key-2', %s, %s, %s)", (new, ISSUER, AUDIENCE))
        assert reader.execute(call, (old_token,)).fetchone()[0]  # for a while, both are good
        assert reader.execute(call, (new_token,)).fetchone()[0]
        assert search(open_transaction) == 0
        with database.role("keys") as keys:
            keys.execute("select pgrag.retire_signing_key(%s)", (KID,))
            assert reader.execute(call, (old_token,)).fetchone()[0]  # until the retirement commits
        assert error_of(reader, call, (old_token,)).sqlstate == "RG203"
        assert reader.execute(call, (new_token,)).fetchone()[0]
        assert error_of(open_transaction, SEARCH).sqlstate == "RG203"  # a proven principal ends with its key


@pytest.mark.contract("A2")
def test_keys_do_not_change_and_must_be_strong(database: Database) -> None:
    add = "select pgrag.add_signing_key(%s, %s, %s, %s)"
    strong = secrets.token_bytes(32)
    refused = [
        (KID, strong, ISSUER, AUDIENCE), ("weak", strong[:31], ISSUER, AUDIENCE), ("weak", b"", ISSUER, AUDIENCE), ("weak", None, ISSUER, AUDIENCE),
        ("a|b", strong, ISSUER, AUDIENCE), ("", strong, ISSUER, AUDIENCE), (None, strong, ISSUER, AUDIENCE), ("long", b"x" * 1025, ISSUER, AUDIENCE),
        ("x", strong, "", AUDIENCE), ("x", strong, ISSUER, None),
    ]  # fmt: skip
    for arguments in refused:
        with database.role("keys") as keys:
            assert error_of(keys, add, arguments).sqlstate in ("RG211", "RG406"), arguments
            keys.rollback()
    with database.role("keys") as keys:
        keys.execute(add, ("key-2", strong, ISSUER, AUDIENCE))
        keys.execute("select pgrag.retire_signing_key('key-2')")
        assert error_of(keys, add, ("key-2", strong, ISSUER, AUDIENCE)).sqlstate == "RG211"  # nor comes back
        keys.rollback()
        listed = keys.execute("select * from pgrag.list_signing_keys()").fetchall()
        assert [row[0] for row in listed] == [KID]
        assert SECRET not in [field for row in listed for field in row]


@pytest.mark.contract("A2")
def test_a_key_speaks_for_its_issuer_and_audience_only(database: Database) -> None:
    database.put_tenant("a")
    other = secrets.token_bytes(32)
    with database.role("keys") as keys:
        keys.execute("select pgrag.add_signing_key('partner', %s, 'partner', 'partners')", (other,))
    with psycopg.connect(database.dsn("app_reader"), autocommit=True) as reader:
        call = "select tenant from pgrag.whoami(%s)"
        good = database.token("a", "alice", secret=other, kid="partner", iss="partner", aud="partners")
        assert reader.execute(call, (good,)).fetchone()[0] == "a"
        for changes in ({}, {"iss": "partner"}, {"aud": "partners"}):
            token = database.token("a", "alice", secret=other, kid="partner", **changes)
            assert error_of(reader, call, (token,)).sqlstate == "RG206"


@pytest.mark.contract("A2")
@pytest.mark.parametrize("part", ["backend", "transaction"])
def test_a_setting_is_of_one_backend_and_one_transaction(world: Database, part: str) -> None:
    """Each half of the mark by itself, in a setting whose MAC is right: two backends can begin in one microsecond."""
    with world.reader("a", "alice") as reader, world.superuser() as superuser:
        own = reader.execute("select current_setting('pgrag.principal')").fetchone()[0].split("|")
        pid, begun = own[8].split(":")
        assert int(pid) == reader.info.backend_pid
        for mark, code in ((f"{pid}:{begun}", None), (f"{int(pid) + 1}:{begun}" if part == "backend" else f"{pid}:{int(begun) - 1}", "RG208")):
            signed = "|".join([*own[:8], mark])
            (mac,) = superuser.execute("select pgrag_private.internal_mac('session', %s)", (signed,)).fetchone()
            reader.execute("select set_config('pgrag.principal', %s, true)", (f"{signed}|{mac}",))
            if code is None:  # control: a MAC made in this way is accepted
                assert reader.execute("select subject from pgrag.whoami()").fetchone() == ("alice",)
                continue
            with pytest.raises(psycopg.Error) as caught, reader.transaction():
                reader.execute("select subject from pgrag.whoami()")
            assert caught.value.sqlstate == code
