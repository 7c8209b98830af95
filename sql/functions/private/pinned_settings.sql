-- What any role may set and would otherwise reach into the definer functions: each of these gets all of them, the same for all readers
-- and for all writers, at every installation and upgrade (98_settings.sql). A test compares, and so does pgrag.doctor().
--
--   row_security                         switched off, every query on a table of pgrag's would be an error
--   plan_cache_mode, jit                 a generic plan or a JIT compilation turned a search of 0.4 ms into seconds; a custom one turned a
--                                        write into seconds: of a tenant that statistics do not know yet it reads all, for each row, and
--                                        foreign keys are checked by the same setting
--   geqo                                 set to begin at few tables, it fails on those that are looked up row by row (XX000)
--   standard_conforming_strings          otherwise a backslash in a pattern changes its meaning
--   transform_null_equals, array_nulls   what "= null" and a "null" in an array literal mean
--   debug_print_…                        plans hold parameters, and parameters hold keys
--   gin_fuzzy_search_limit               answers at random
--   the rest                             the form of times and bytes, which hashes and seals are made of
create or replace function pgrag_private.pinned_settings(p_volatile boolean) returns table (name text, value text)
language sql immutable parallel safe rows 16
begin atomic
  select s.name, s.value
    from (values ('row_security', 'on'), ('plan_cache_mode', case when p_volatile then 'force_generic_plan' else 'force_custom_plan' end), ('jit', 'off'),
                 ('geqo', 'off'), ('standard_conforming_strings', 'on'), ('transform_null_equals', 'off'), ('array_nulls', 'on'), ('gin_fuzzy_search_limit', '0'),
                 ('TimeZone', 'UTC'), ('DateStyle', 'ISO, YMD'), ('IntervalStyle', 'iso_8601'), ('bytea_output', 'hex'), ('extra_float_digits', '1'),
                 ('debug_print_parse', 'off'), ('debug_print_rewritten', 'off'), ('debug_print_plan', 'off')) as s (name, value);
end;
