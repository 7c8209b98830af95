-- What is so before any object is made, or made again: nobody has TEMP, PUBLIC may not call what comes, and the
-- engine and the viewer may create. 99_grants.sql takes the last back.

-- Application roles get no TEMP: a temporary object is a name that other code might find first.
do $$
begin
  execute format('revoke temporary on database %I from public', current_database());
end
$$;

-- Only the global form of default privileges takes EXECUTE away from PUBLIC (the one with IN SCHEMA can only add).
set local role pgrag_engine;
alter default privileges revoke execute on functions from public;
alter default privileges revoke usage on types from public;
set local role pgrag_owner;
alter default privileges revoke execute on functions from public;
alter default privileges revoke usage on types from public;

-- The tables of blocks come and go, so they are kept apart: a backup can leave them out.
reset role;
do $$
begin
  if to_regnamespace('pgrag_block') is null then
    create schema pgrag_block authorization pgrag_owner;
  end if;
end
$$;
set local role pgrag_owner;
comment on schema pgrag_block is 'Tables that pgrag.maintain() builds and drops: vectors of one access list, or of a tenant, with their index.';
comment on schema pgrag is 'Evidence for retrieval-augmented generation: the functions and views that applications use.';
comment on schema pgrag_data is 'Tenant data of pgrag, under forced row-level security; reached through the functions of schema pgrag only.';
comment on schema pgrag_private is 'Keys and internals of pgrag; not for applications.';

grant usage, create on schema pgrag to pgrag_engine, pgrag_viewer;
grant usage on schema pgrag_data to pgrag_engine, pgrag_viewer;
grant usage, create on schema pgrag_private to pgrag_engine;
grant usage on schema pgrag_block to pgrag_engine;
grant usage on schema pgrag_private to pgrag_viewer;
