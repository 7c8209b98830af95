-- Settings that any role may change and that would otherwise reach into the definer functions: each of these gets
-- all of them here, the same for all readers and for all writers, at every installation and upgrade. A test compares.
--
--   row_security                         switched off, every query on a table of pgrag's would be an error
--   plan_cache_mode, jit                 a generic plan or a JIT compilation turned a search of 0.4 ms into seconds; a custom one turned a
--                                        write into seconds: of a tenant that statistics do not know yet it reads all, for each row, and
--                                        foreign keys are checked by the same setting
--   standard_conforming_strings          otherwise a backslash in a pattern changes its meaning
--   transform_null_equals, array_nulls   what "= null" and a "null" in an array literal mean
--   debug_print_…                        plans hold parameters, and parameters hold keys
--   gin_fuzzy_search_limit               answers at random
--   the rest                             the form of times and bytes, which hashes and seals are made of
do $$
declare
  v_owner    text;
  v_function regprocedure;
  v_plans    text;
begin
  for v_owner, v_function, v_plans in
    select p.proowner::regrole::text, p.oid, case p.provolatile when 'v' then 'force_generic_plan' else 'force_custom_plan' end from pg_proc p
     where p.pronamespace in ('pgrag'::regnamespace, 'pgrag_private'::regnamespace) and p.prosecdef
       and p.proowner in ('pgrag_engine'::regrole, 'pgrag_owner'::regrole)
  loop
    execute 'set local role ' || v_owner;
    execute format('alter function %s
      set row_security = on
      set plan_cache_mode = %s
      set jit = off
      set standard_conforming_strings = on
      set transform_null_equals = off
      set array_nulls = on
      set gin_fuzzy_search_limit = 0
      set TimeZone = ''UTC''
      set DateStyle = ''ISO, YMD''
      set IntervalStyle = ''iso_8601''
      set bytea_output = ''hex''
      set extra_float_digits = 1
      set debug_print_parse = off
      set debug_print_rewritten = off
      set debug_print_plan = off', v_function, v_plans);
  end loop;
  set local role pgrag_engine;
end
$$;
