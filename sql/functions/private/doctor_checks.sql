-- What pgrag.doctor() looks at, in order, and what it says where all is well. Of objects: how bad a difference is, and what
-- is said of one that is missing or another (wanting), and of one that is not pgrag's (beside).
create or replace function pgrag_private.doctor_checks()
returns table (place integer, check_name text, severity text, wanting text, beside text, well text)
language sql immutable parallel safe rows 30
begin atomic
  select c.*
    from (values
      (1,  'row_security', 'error', 'row-level security is not enabled, or not forced', '', 'row-level security is enabled and forced on every table'),
      (2,  'policies', 'error', 'the policy is missing, or another', 'the policy is none of pgrag''s', 'the policies are pgrag''s, and no others'),
      (3,  'privileges', 'error', 'the privilege is missing', 'the privilege is none that pgrag gives', 'privileges on pgrag''s objects are those that pgrag gives'),
      (4,  'public_execute', 'error', '', 'PUBLIC may call the function', 'PUBLIC may call nothing'),
      (5,  'owners', 'error', 'the owner is another', '', 'every object has its owner'),
      (6,  'functions', 'error', 'the function is missing, or declared otherwise', 'the function is none of pgrag''s', 'functions are pgrag''s'),
      (7,  'function_attributes', 'error', 'the function is marked otherwise', '', 'functions are marked as they must be'),
      (8,  'function_bodies', 'error', 'the function does something else than what was installed', '', 'functions do what was installed'),
      (9,  'search_path', 'error', 'the search_path of the function is not pinned', 'the function has a search_path', 'functions have their search_path'),
      (10, 'function_settings', 'error', 'the function lacks the setting, or has another', 'the setting is none of pgrag''s', 'functions have their settings'),
      (11, 'tables', 'error', 'the table or constraint is missing, or another', 'the table is none of pgrag''s', 'tables have their columns and constraints'),
      (12, 'triggers', 'error', '', 'pgrag has no triggers and rules', 'no table has a trigger or a rule'),
      (13, 'views', 'error', 'the view is missing, or another', 'the view is none of pgrag''s', 'the views are pgrag''s'),
      (14, 'default_privileges', 'error', 'what it makes next would be open to PUBLIC', 'what it makes next would have it', 'what is made next is closed to PUBLIC'),
      (15, 'indexes', 'warning', 'the index is missing, or another', '', 'indexes are there and valid'),
      (16, 'roles', '', '', '', 'pgrag''s roles have no attribute and no membership'),
      (17, 'trusted_roles', '', '', '', 'nobody may become the owner, the engine or the viewer'),
      (18, 'application_roles', '', '', '', 'application roles have functions and nothing else'),
      (19, 'temporary', '', '', '', 'application roles may not create temporary objects'),
      (20, 'create', '', '', '', 'application roles may not create objects'),
      (21, 'server_version', '', '', '', 'the version of PostgreSQL is a supported one'),
      (22, 'vector', '', '', '', 'pgvector is there, in a supported version'),
      (23, 'pgrag_version', '', '', '', 'the installation is of one version'),
      (24, 'server_settings', '', '', '', 'the server''s settings do not hinder'),
      (25, 'signing_keys', '', '', '', 'there are signing keys, and none is old'),
      (26, 'internal_keys', '', '', '', 'the internal keys are there'),
      (27, 'statistics', '', '', '', 'statistics are fresh'),
      (28, 'ledger', '', '', '', 'the ledger agrees with the documents'),
      (29, 'spaces', '', '', '', 'documents in force are in the active spaces, and retired spaces are empty'),
      (30, 'search_cost', '', '', '', 'costs of searches were measured here, or do not matter yet'),
      (31, 'blocks', '', '', '', 'blocks are there where they pay, and fresh'),
      (32, 'recall', '', '', '', 'blocks find what comparing everything finds')
    ) as c (place, check_name, severity, wanting, beside, well);
end;
