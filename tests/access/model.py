"""A plain model of who may see what, and random worlds that are built in it and in the database alike."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.support import Database

WORDS = [
    "refund",
    "window",
    "price",
    "tent",
    "stove",
    "boat",
    "lease",
    "deposit",
    "invoice",
    "holiday",
    "salary",
    "travel",
]


@dataclass
class Document:
    source: str
    key: str
    readers: list[str]
    active: str | None = None  # the name of the revision in force
    texts: dict[str, list[str]] = field(default_factory=dict)  # its revisions' chunks
    deleted: bool = False
    expired: bool = False


@dataclass
class Tenant:
    """One random tenant: users, groups (cycles welcome), and documents in every state."""

    name: str
    users: list[str]
    groups: dict[str, set[str]]
    documents: list[Document]
    dropped: set[str] = field(default_factory=set)

    def principals(self, user: str) -> set[str]:
        """The user, its groups, and theirs."""
        if user in self.dropped or user not in self.users:
            return set()
        found: set[str] = {user, "everyone"}
        while (
            more := {g for g, members in self.groups.items() if members & found and g not in self.dropped}
            - found
        ):
            found |= more
        return found

    def visible(self, user: str) -> list[Document]:
        mine = self.principals(user)
        return [
            d
            for d in self.documents
            if mine & set(d.readers) and d.active and not d.deleted and not d.expired
        ]

    def rows(self, user: str) -> set[tuple[str, str, str]]:
        return {(d.source, d.key, d.active or "") for d in self.visible(user)}

    def chunks(self, user: str) -> set[tuple[str, str, str, int, str]]:
        return {
            (d.source, d.key, d.active or "", number, text)
            for d in self.visible(user)
            for number, text in enumerate(d.texts[d.active or ""], start=1)
        }


def random_tenant(random: random.Random, name: str, documents: int = 14) -> Tenant:
    users = [f"user-{n}" for n in range(4)]
    groups = {f"group-{n}": set() for n in range(random.randint(1, 6))}
    for members in groups.values():
        members |= set(random.sample([*users, *groups], random.randint(0, 4)))
    everyone = [*users, *groups, "everyone"]
    made = []
    for number in range(documents):
        key = f"doc-{number // 2 if random.random() < 0.3 else number}.md"  # keys that meet in two sources
        source = random.choice(["handbook", "wiki"])
        if any((d.source, d.key) == (source, key) for d in made):
            continue
        readers = random.sample(everyone, random.choice([0, 1, 1, 1, 2, 3]))
        made.append(Document(source, key, readers))
    return Tenant(name, users, groups, made)


def text(random: random.Random) -> str:
    return f"Common {' '.join(random.choices(WORDS, k=6))} {random.randrange(1000)}. "


def build(database: Database, tenant: Tenant, random: random.Random) -> None:
    """Build it, and give each document a state: active, replaced, rolled back, staged, deleted, expired, restored."""
    database.put_tenant(tenant.name, sources=("handbook", "wiki"))
    database.put_principals(
        tenant.name, users=tenant.users, groups={g: sorted(m) for g, m in tenant.groups.items()}
    )
    for source in ("handbook", "wiki"):
        with database.writer(tenant.name, source) as writer:
            for document in (d for d in tenant.documents if d.source == source):
                state = random.choice(
                    ["active"] * 4 + ["replaced", "rolled back", "staged", "deleted", "expired", "restored"]
                )
                more = {"effective_to": "2001-01-01"} if state == "expired" else {}
                document.expired = state == "expired"
                for revision in ("r1", "r2") if state in ("replaced", "rolled back") else ("r1",):
                    document.texts[revision] = texts = [text(random) for _ in range(random.randint(1, 3))]
                    vectors = [[random.random() + 0.1, random.random(), random.random()] for _ in texts]
                    database.put_document(
                        writer, document.key, texts, readers=document.readers, revision=revision, vectors=vectors,
                        activate=state != "staged", **more,
                    )  # fmt: skip
                    document.active = None if state == "staged" else revision
                if state == "rolled back":
                    document.active = writer.execute("select pgrag.rollback(%s)", (document.key,)).fetchone()[
                        0
                    ]
                if state in ("deleted", "restored"):
                    writer.execute("select pgrag.delete_document(%s)", (document.key,))
                    document.deleted = True
                if state == "restored":
                    writer.execute("select pgrag.activate(%s, 'r1', p_restore => true)", (document.key,))
                    document.deleted = False
    if random.random() < 0.5:
        gone = random.choice([*tenant.users, *tenant.groups])
        with database.admin(tenant.name) as admin:
            admin.execute("select pgrag.drop_principal(%s)", (gone,))
        tenant.dropped.add(gone)
