"""0.1.0: the installation, dist/pgrag--0.1.0.sql as it was released."""

from alembic.util import CommandError

from pgrag import migrations

revision = "0.1.0"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Install."""
    migrations.run("pgrag--0.1.0.sql")


def downgrade() -> None:
    """Refuse: there is no way back but a backup."""
    raise CommandError("pgrag goes forward only: restore a backup, or take it out with sql/uninstall.sql")
