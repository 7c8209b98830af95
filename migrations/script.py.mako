"""${message}: migrations/sql/${up_revision}.sql, and sql/ as it is now for what can be replaced."""

from alembic.util import CommandError

from pgrag import _sql, migrations

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Go forward."""
    migrations.execute((_sql.files("migrations") / "sql" / f"{revision}.sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    """Refuse: there is no way back but a backup."""
    raise CommandError("pgrag goes forward only: restore a backup, or take it out with sql/uninstall.sql")
