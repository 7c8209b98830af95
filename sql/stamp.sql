-- Alembic's stamp, so that either way of installing can be carried on by the other. Alembic makes and fills
-- this table itself: a migration runs every file but this one.
do $$
begin
  perform 'pgrag'::regnamespace; -- nothing is stamped where nothing was installed
  create table public.pgrag_alembic_version (
    version_num character varying(32) not null,
    constraint pgrag_alembic_version_pkc primary key (version_num)
  );
  insert into public.pgrag_alembic_version (version_num) values ('0.3.0');
end
$$;
