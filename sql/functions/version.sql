create or replace function pgrag.version() returns text
language sql immutable parallel safe
return '0.3.0';

comment on function pgrag.version is 'The version of pgrag that is installed in this database.';
revoke all on function pgrag.version from public;
