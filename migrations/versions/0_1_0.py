"""0.1.0: the installation.

Until 0.1.0 is released it is whatever ``sql/`` builds. With the first delta after it, the script that was
released becomes ``migrations/sql/0.1.0.sql``, named in ``migrations/frozen.sha256``, and is run instead.
"""

from alembic.util import CommandError

from pgrag import _sql, migrations

revision = "0.1.0"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Install."""
    migrations.execute(_sql.build(stamp=False))


def downgrade() -> None:
    """Refuse: there is no way back but a backup."""
    raise CommandError("pgrag goes forward only: restore a backup, or take it out with sql/uninstall.sql")
