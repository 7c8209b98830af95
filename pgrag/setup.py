"""Setting up tenants, sources, spaces, people and groups from one YAML file, such as the handbook's.

tenants:
  - tenant: halvorsen
    name: Halvorsen Outdoor
    sources:
      - {source: handbook, trust: internal, processors: []}
    groups: [staff, support]
    users: [alice]
    services: [helpdesk-bot]
    memberships:
      - {group: staff, members: [support]}
      - {group: support, members: [alice, helpdesk-bot]}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from pgrag._sync._flavour import AnyConnection
from pgrag._sync.sessions import admin, operator
from pgrag.errors import InvalidInput
from pgrag.models import Source
from pgrag.protocols import EmbeddingSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusTenant:
    """One tenant of a corpus file."""

    tenant: str
    name: str
    sources: tuple[Source, ...]
    principals: tuple[tuple[str, str], ...]
    """Name and kind: group, user or service."""
    memberships: tuple[tuple[str, str], ...]
    """Group and member."""


class _Loader(yaml.SafeLoader):
    """Of a key that is there twice, YAML's own would keep the last, and drop people without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, yaml.MappingNode):  # !!set [a]
            return super().construct_mapping(node, deep)  # which refuses it
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(problem=f"the key {key!r:.60} is there twice")
        return super().construct_mapping(node, deep)


def load_corpus(path: str | Path) -> tuple[CorpusTenant, ...]:
    """The tenants that a corpus file describes. Raises InvalidInput (RG414)."""
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506  # a safe one
    except OSError as error:
        _refuse(f"{path} cannot be read: {error.strerror}")
    except (yaml.YAMLError, ValueError, OverflowError, KeyError, AttributeError, RecursionError) as error:
        # Beside its own errors, those of its constructors: of 2024-02-30, !!int x, !!bool x, !!timestamp x,
        # and of chr(): an escape may name a character that there is not.
        _refuse(f"{path} is not YAML: {' '.join(str(error).split())[:200]}")
    top = _Node(content, "the file", ("tenants",))
    return tuple(_tenant(index, each) for index, each in enumerate(top.items("tenants"), 1))


def apply_corpus(
    connection: AnyConnection,
    path: str | Path,
    *,
    admin_token: Callable[[str], str],
    admin_connection: AnyConnection | None = None,
    space: EmbeddingSpace | None = None,
) -> tuple[CorpusTenant, ...]:
    """Create what the file describes; what is there already stays, so that it can be applied again.

    ``connection`` is an operator's. The people are put by ``admin_connection`` (the same one, where its role
    is both), each tenant's with the token that ``admin_token(tenant)`` mints. ``space`` is registered for
    each tenant. What the file no longer has is not removed. Each tenant is two transactions.

    Raises InvalidInput (RG406, RG407, RG414), NotFound (RG401) for a member that is nobody, IdentityError.
    """
    corpus = load_corpus(path)
    for one in corpus:
        with operator(connection) as o:
            o.put_tenant(one.tenant, one.name)
            for source in one.sources:
                o.put_source(one.tenant, source.source, source.processors, source.trust)
            if space is not None:
                o.put_space(one.tenant, space)
        with admin(
            connection if admin_connection is None else admin_connection, admin_token(one.tenant)
        ) as a:
            for name, kind in one.principals:
                a.put_principal(name, kind)
            for group, member in one.memberships:
                a.put_membership(group, member)
    return corpus


class _Node:
    """A mapping in the file, of which each value is asked for with its type."""

    def __init__(self, value: Any, where: str, known: Sequence[str]) -> None:
        if not isinstance(value, dict):
            _refuse(f"{where} is not a mapping")
        for key in value:
            if key not in known:
                _refuse(f"{where} has a key {key!r:.60} that is not known: {', '.join(known)}")
        self._value = value
        self.where = where

    def text(self, key: str, default: str | None = None) -> str:
        value = self._value.get(key, default)
        if not isinstance(value, str):
            _refuse(f"{self.where} has no text as {key}")
        return value

    def items(self, key: str) -> list[Any]:
        value = self._value.get(key) or []
        if not isinstance(value, list):
            _refuse(f"{self.where} has no list as {key}")
        return value

    def names(self, key: str) -> list[str]:
        values = self.items(key)
        if not all(isinstance(value, str) for value in values):
            # A YAML surprise: no, on and 1 are not text unless quoted.
            _refuse(f"{self.where} has something in {key} that is not text; quote it")
        return values


def _tenant(index: int, value: Any) -> CorpusTenant:
    node = _Node(
        value,
        f"tenant {index}",
        ("tenant", "name", "sources", "groups", "users", "services", "memberships"),
    )
    tenant = node.text("tenant")
    sources = []
    for each in node.items("sources"):
        source = _Node(each, f"a source of tenant {tenant}", ("source", "trust", "processors"))
        sources.append(
            Source(
                source=source.text("source"),
                trust=source.text("trust", "internal"),
                processors=source.names("processors"),
            )
        )
    memberships = []
    for each in node.items("memberships"):
        membership = _Node(each, f"a membership of tenant {tenant}", ("group", "members"))
        group = membership.text("group")
        memberships += [(group, member) for member in membership.names("members")]
    kinds = (("groups", "group"), ("users", "user"), ("services", "service"))
    return CorpusTenant(
        tenant=tenant,
        name=node.text("name", tenant),
        sources=tuple(sources),
        principals=tuple((name, kind) for key, kind in kinds for name in node.names(key)),
        memberships=tuple(memberships),
    )


def _refuse(fact: str) -> NoReturn:
    raise InvalidInput(
        f"the corpus cannot be applied: {fact}", code="RG414", hint="Compare examples/handbook/corpus.yaml."
    )
