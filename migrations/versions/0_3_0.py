"""0.3.0: dist/pgrag--0.2.0--0.3.0.sql, made of migrations/sql/0.3.0.sql and of sql/."""

from alembic.util import CommandError

from pgrag import migrations

revision = "0.3.0"
down_revision = "0.2.0"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Go forward."""
    migrations.run("pgrag--0.2.0--0.3.0.sql")


def downgrade() -> None:
    """Refuse: there is no way back but a backup."""
    raise CommandError("pgrag goes forward only: restore a backup, or take it out with sql/uninstall.sql")
