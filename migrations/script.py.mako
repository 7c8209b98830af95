"""${message}: dist/pgrag--${down_revision}--${up_revision}.sql, made of migrations/sql/${up_revision}.sql and of sql/."""

from alembic.util import CommandError

from pgrag import migrations

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Go forward."""
    migrations.run("pgrag--${down_revision}--${up_revision}.sql")


def downgrade() -> None:
    """Refuse: there is no way back but a backup."""
    raise CommandError("pgrag goes forward only: restore a backup, or take it out with sql/uninstall.sql")
