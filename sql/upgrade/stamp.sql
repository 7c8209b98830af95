-- Alembic's stamp, moved on. Alembic does this itself: a migration runs every part but this one.
update public.pgrag_alembic_version set version_num = current_setting('pgrag.upgrade_to');
