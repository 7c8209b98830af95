"""What a session lets through: every row, count, error, notice and plan of it, as one text to search for secrets."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.support import SECRET, Database

DIAGNOSTICS = (
    "message_primary", "message_detail", "message_hint", "context", "internal_query", "schema_name", "table_name",
    "column_name", "datatype_name", "constraint_name",
)  # fmt: skip


class Watch:
    """A session and everything that came out of it. Parameters are put into the text, as an injection would."""

    def __init__(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, cursor_factory=psycopg.ClientCursor)
        self.connection.add_notice_handler(self._notice)
        self.connection.add_notify_handler(lambda notify: self.seen.append(repr(notify)))
        self.seen: list[str] = []

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exception: object) -> None:
        self.connection.close()

    def _notice(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        self.seen += [str(getattr(diagnostic, name) or "") for name in DIAGNOSTICS]

    def run(self, sql: str, parameters: dict[str, Any] | None = None) -> str:
        """Run it; the SQLSTATE of the error, or an empty text."""
        try:
            with self.connection.cursor() as cursor:
                if "to stdout" in sql:
                    with cursor.copy(sql, parameters) as copy:
                        self.seen += [bytes(block).decode() for block in copy]
                    return ""
                cursor.execute(sql, parameters)
                while True:
                    self.seen.append(f"{cursor.statusmessage} {cursor.rowcount}")
                    if cursor.description:
                        self.seen += [repr(row) for row in cursor.fetchall()]
                    if not cursor.nextset():
                        return ""
        except psycopg.Error as error:
            self._notice(error.diag)
            self.seen.append(str(error))
            return error.sqlstate or "?"

    @property
    def text(self) -> str:
        return "\n".join(self.seen)


@dataclass
class Secret:
    """A value that must not come out, in any spelling; `known_to` are the roles whose business it is."""

    value: bytes
    known_to: frozenset[str] = frozenset()
    spellings: list[str] = field(init=False)

    def __post_init__(self) -> None:
        signed = " ".join(
            str(byte - 256 if byte > 127 else byte) for byte in self.value
        )  # as node trees print it
        self.spellings = [self.value.hex(), signed]
        if self.value.isascii():
            self.spellings.append(self.value.decode().lower())


def canary() -> str:
    """A word that no other text has, and that every text search configuration leaves alone."""
    return "zq7" + secrets.token_hex(7)


class World:
    """Tenant a, where the attacker is, tenant b, and a secret in every place where a name or a text can stand.

    Of tenant a, alice may see refund.md and travel.md. Hidden from her: documents for the group hr, in her source and
    in another one, a revision that is staged, one that is verified but not active, and a deleted document.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.secrets: dict[str, Secret] = {}
        names_in_a = frozenset({"writer", "admin"})  # of documents and groups: they manage them
        new, secret = self._new, self.secret
        self.tenant_b = new("b: tenant", "b-{}", {"operator"})
        self.group = new("a: group", "hr-{}", names_in_a)
        self.carol = new("a: user", "carol-{}", names_in_a)
        self.wiki = new("a: source", "wiki-{}", {"operator", "admin"})
        self.pay = new("a: document", "pay-{}.md", names_in_a)
        self.pay_wiki = new("a: document of the other source", "pay-{}.md", {"admin"})
        self.draft = new("a: staged document", "draft-{}.md", {"admin"})
        self.deleted = new("a: deleted document", "old-{}.md", names_in_a)
        self.pay_text = f"The salary of carol is {secret('a: text')} and the refund window is unlimited."
        titles = {
            "title": f"Pay {secret('a: title', names_in_a)}",
            "tags": [secret("a: tag")],
            "product": secret("a: product"),
            "metadata": json.dumps({"team": secret("a: metadata")}),
        }
        b = {
            name: secret(f"b: {name}")
            for name in ("text", "title", "tag", "product", "metadata", "user", "group", "document")
        }
        self.user_b, self.group_b, self.document_b = (
            f"dave-{b['user']}",
            f"team-{b['group']}",
            f"{b['document']}.md",
        )
        self.source_b = new("b: source", "source-{}", {"operator"})
        self.space_b = new("b: space", "space-{}", {"operator"})

        database.put_tenant("a", sources=("handbook", self.wiki))
        database.put_tenant(self.tenant_b, sources=("handbook", self.source_b), space=(self.space_b, 3))
        database.put_principals(
            "a", users=["alice", "bob", self.carol], groups={self.group: ["bob", self.carol]}
        )
        database.put_principals(
            self.tenant_b, users=["alice", self.user_b], groups={self.group_b: [self.user_b]}
        )
        with database.writer("a", "handbook") as writer:
            put = database.put_document
            put(writer, "refund.md", "The refund window is 30 days.", vectors=[[1, 0.2, 0]])
            put(writer, "travel.md", "Trains first. Hotels up to 120 a night.", vectors=[[0, 0.2, 1]])
            put(writer, self.pay, self.pay_text, readers=[self.group], vectors=[[1, 0.2, 0]], **titles)
            for number in range(
                3
            ):  # a common value, so that it is among the most common values of the statistics
                put(
                    writer,
                    f"more-{number}.md",
                    f"More pay {number}.",
                    readers=[self.group],
                    product=titles["product"],
                )
            put(
                writer,
                "refund.md",
                f"The refund window is {secret('a: next revision')}.",
                vectors=[[1, 0, 0]],
                activate=False,
            )
            put(writer, self.deleted, f"The refund window was {secret('a: deleted')}.", vectors=[[1, 0.2, 0]])
            writer.execute("select pgrag.delete_document(%s)", (self.deleted,))
        with database.writer("a", self.wiki) as writer:
            put(
                writer,
                self.pay_wiki,
                f"Salaries: {secret('a: wiki text')}",
                readers=[self.group],
                vectors=[[1, 0.2, 0]],
            )
            # Staged and not verified, so nothing is right about it yet, not even the dimension of its vector.
            draft = f"A draft on refunds, {secret('a: staged')}"
            writer.execute(
                "select pgrag.stage_revision(%s, %s, p_revision => 'r1', p_space => 'toy')",
                (self.draft, draft),
            )
            writer.execute("select pgrag.set_access(%s, '{everyone}')", (self.draft,))
            writer.execute(
                "select pgrag.add_chunks(%s, 'r1', 1, %s, '{0}', %s, '{5}', p_embeddings => '{\"[1,2,3,4,5]\"}')",
                (self.draft, [draft], [len(draft)]),
            )
        for source in ("handbook", self.source_b):
            with database.writer(self.tenant_b, source) as writer:
                more = {
                    "title": b["title"],
                    "tags": [b["tag"]],
                    "product": b["product"],
                    "metadata": json.dumps({"team": b["metadata"]}),
                    "vectors": [[1, 0.2, 0]],
                }
                for document in ("refund.md", self.document_b):
                    put(
                        writer,
                        document,
                        f"The refund window is {b['text']} days.",
                        space=self.space_b,
                        **more,
                    )
        with database.superuser() as superuser:
            superuser.execute("analyze")
            self.ids = dict(superuser.execute("select tenant, tenant_id from pgrag_data.tenant"))
            self.bob = superuser.execute(
                "select principal_id from pgrag_data.principal where name = 'bob'"
            ).fetchone()[0]
            chunk = "select encode(chunk_id, 'hex') from pgrag_data.chunk where strpos(text, %s) > 0"
            self.chunks = {
                name: superuser.execute(chunk, (value.decode(),)).fetchone()[0]
                for name in ("a: text", "a: next revision", "a: deleted", "a: staged", "b: text")
                if (value := self.secrets[name].value)
            }
            pads = "select inner_pad, outer_pad from pgrag_private.signing_key union all select inner_pad, outer_pad from pgrag_private.internal_key"
            keys = [SECRET] + [pad for row in superuser.execute(pads) for pad in row]
        self.secrets |= {f"key {number}": Secret(key[:16]) for number, key in enumerate(keys)}
        with database.reader("a", "bob") as reader:
            self.bobs_packet = database.packet(reader, "salary of carol")
            assert self.bobs_packet["excerpts"]
        self.parameters: dict[str, Any] = {
            "a_id": self.ids["a"], "b_id": self.ids[self.tenant_b], "bob_id": self.bob, "group": self.group, "carol": self.carol,
            "wiki": self.wiki, "pay": self.pay, "pay_text": self.pay_text, "tenant_b": self.tenant_b, "user_b": self.user_b,
            "group_b": self.group_b, "source_b": self.source_b, "document_b": self.document_b, "space_b": self.space_b,
            "pay_wiki": self.pay_wiki, "token": self.token("reader"), "chunk": self.chunks["a: text"], "bobs_packet": json.dumps(self.bobs_packet),
        }  # fmt: skip

    def secret(self, name: str, known_to: frozenset[str] = frozenset()) -> str:
        word = canary()
        self.secrets[name] = Secret(word.encode(), frozenset(known_to))
        return word

    def _new(self, name: str, form: str, known_to: Any) -> str:
        return form.format(self.secret(name, frozenset(known_to)))

    def token(self, role: str) -> str:
        """What an application of that role holds: always of tenant a, and never worth more than alice."""
        if role in ("reader", "browser"):
            return self.database.token("a", "alice")
        return self.database.token("a", "alice", role, source="handbook" if role == "writer" else None)

    def watch(self, role: str | None = None, token: str | None = None) -> Watch:
        """A session of app_<role>, or of a superuser; with a token, in a transaction of its principal."""
        watch = Watch(self.database.dsn(role and f"app_{role}"))
        if token is not None:
            assert watch.run("begin") == ""
            assert watch.run("select pgrag.authenticate(%(token)s)", {"token": token}) == "", watch.text
        return watch

    def leaks(self, text: str, role: str = "") -> list[str]:
        """The names of the secrets that stand in the text and are none of the role's business."""
        text = " ".join(text.lower().split())  # a plan in the log is broken into lines anywhere
        return [
            name
            for name, secret in self.secrets.items()
            if role not in secret.known_to and any(spelling in text for spelling in secret.spellings)
        ]
